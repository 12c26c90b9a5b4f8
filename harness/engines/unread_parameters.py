"""Find parameters that a card declares and its engine never reads: a user would set them without effect."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def unread_parameters(engine: type, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that the sources of ``engine`` do not mention.

    The sources are the modules of the class and its bases, with the other modules of their packages. A name is
    mentioned as a text, an attribute or a field, also behind a prefix of texts that ends with ``_``. Nothing is said of
    an engine that hands on all its parameters at once, or whose source is not there.
    """
    nodes = [node for path in _sources(engine) for node in ast.walk(_parsed(path))]
    if not nodes or any(map(_hands_on_all, nodes)):
        return []
    base = ast.walk(_parsed(Path(__file__).with_name("base.py")))
    words = {word for node in (*nodes, *base) for word in _words(node)}
    prefixes = [word for word in words if word.endswith("_")]
    return [name for name in names if not words & {name, *(name.removeprefix(prefix) for prefix in prefixes)}]


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _sources(engine: type) -> list[Path]:
    paths: dict[Path, None] = {}
    for base in engine.__mro__:
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        if file is None or base.__module__ in ("harness.engines.base", "abc", "typing"):
            continue
        path = Path(file)
        if path.suffix == ".py":
            is_package = (path.parent / "__init__.py").exists() and base.__module__ != f"harness.engines.{path.stem}"
            paths.update(dict.fromkeys(sorted(path.parent.glob("*.py")) if is_package else [path]))
    return list(paths)


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def _hands_on_all(node: ast.AST) -> bool:
    """Tell whether a node unpacks, iterates or copies ``parameters``."""
    if isinstance(node, ast.keyword):
        return node.arg is None and _is_parameters(node.value)
    if isinstance(node, ast.For | ast.comprehension):
        return _is_parameters(node.iter)
    if isinstance(node, ast.Attribute):
        return node.attr in ("items", "keys", "values") and _is_parameters(node.value)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "dict" and any(map(_is_parameters, node.args))
    return False


def _is_parameters(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "parameters"
