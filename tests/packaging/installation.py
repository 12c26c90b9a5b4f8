"""Builds the distribution once, and makes small environments to install it into."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

__all__ = ["Environment", "build", "tracked_copy"]

PLAINLY = ("--quiet", "--no-deps", "--no-compile", "--no-build-isolation", "--no-index")


def tracked_copy(repository: Path, folder: Path) -> Path:
    """A copy of the files that git knows or would add, so that stray build output cannot change a result."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, copy = repository / name, folder / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    return folder


def build(repository: Path, folder: Path) -> tuple[Path, Path]:
    """The source distribution of ``repository``, and the wheel built from it."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(repository)]
    subprocess.run(command, check=True, capture_output=True)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return source, wheel


class Environment:
    """A virtual environment that sees the packages of this one, but not this one's `harness`."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.harness = folder / "bin" / "harness"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.packages = folder / "lib" / version / "site-packages"
        visible = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
        (self.packages / "outer.pth").write_text("\n".join(visible), encoding="utf-8")

    def install(self, *what: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install"]
        subprocess.run([*pip, *PLAINLY, *what], check=True, capture_output=True)

    def run(self, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        return subprocess.run(
            [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
