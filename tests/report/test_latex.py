"""Tables for LaTeX: their structure, TeX's special characters, and whether pdflatex compiles them."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sample_report import sample_report

import harness
from harness.document.model import Cell, Column, Document, Notes, Section, Table, Verdict
from harness.report.formats import render
from harness.report.render.latex import escape, render_latex

HOSTILE = r"""a_b&c%d$e#f{g}h~i^j\k<l>m|n"o'p`q[r]s*t--u''v?`w·x−y▲"""
WRITTEN = (
    r"a\_b\&c\%d\$e\#f\{g\}h$\sim$i\textasciicircum{}j\textbackslash{}k\textless{}l\textgreater{}m\textbar{}n"
    r""""o'p\textasciigrave{}q{[}r{]}s{*}t-{}-u'{}'v?\textasciigrave{}w$\cdot$x$-$y$\dagger$"""
)


def table(rows: int = 2, name: str = HOSTILE) -> Table:
    """A table in which the first row is the best of each metric."""
    columns = [
        Column(name, numeric=False),
        Column("nDCG@10", best="highest", below="95 % interval"),
        Column("ms", best="lowest"),
    ]
    cells = []
    for row in range(rows):
        figure = Cell(f"0.{9 - row}", "▲" if row else "", "[0.1, 0.2]", value=-row, ties="[.1–.2]")
        cells.append([Cell(name), figure, Cell("1", value=row)])
    return Table(f"Quality of {name}", columns, cells, [f"▲ better than {name}"])


def document(*tables: Table) -> Document:
    return Document(
        f"title {HOSTILE}",
        "first line\nsecond line",
        [Verdict("unsure", "a warning\n\\input{evil}", "with its fix")],
        [Section("quality", "Quality", [*tables, Notes(["a note\nof two lines"])])],
        kind="eval",
        name=HOSTILE,
    )


def parts(text: str) -> list[tuple[list[str], list[list[str]]]]:
    """Return the alignment of each tabular, and the cells of its rows."""
    floats = re.findall(r"\\begin\{(tabular|longtable)\}\{([^\n]+)\}\n(.*?)\\end\{\1\}", text, re.DOTALL)
    found = []
    for _, columns, body in floats:
        lines = [line.removesuffix(r" \\") for line in body.splitlines() if line.endswith(r" \\")]
        found.append((re.findall(r"[lr]|p\{[^}]*\}", columns), [re.split(r" & ", line) for line in lines]))
    return found


def test_characters_of_tex_are_printed_and_do_nothing() -> None:
    assert escape(HOSTILE) == WRITTEN


def test_every_sign_of_our_own_texts_has_a_command() -> None:
    """Otherwise pdflatex refuses the tables of any user who has no such letters."""
    root = Path(harness.__file__).parent
    folders = [root / name for name in ("document", "report/documents", "pipeline/probes", "pipeline/regress")]
    unknown = set()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        comments = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        unknown |= {letter for node in texts if id(node) not in comments for letter in escape(node.value)}
    assert {letter for letter in unknown if letter > "\xff"} == set()


def test_a_table_has_rules_the_best_in_bold_daggers_and_second_lines() -> None:
    text = render_latex(document(table(name="run")))
    (alignment, rows) = parts(text)[0]
    assert alignment == ["l", "r", "r"]
    assert rows == [
        ["run", "nDCG@10", "ms"],
        ["", r"{\scriptsize 95 \% interval}", ""],
        ["run", r"\textbf{0.9 {[}.1--.2{]}}", r"\textbf{1}"],
        ["", r"{\scriptsize {[}0.1, 0.2{]}}", ""],
        ["run", r"0.8 {[}.1--.2{]}\textsuperscript{$\dagger$}", "1"],
        ["", r"{\scriptsize {[}0.1, 0.2{]}}", ""],
    ]
    rules = [line for line in text.splitlines() if line in (r"\toprule", r"\midrule", r"\bottomrule")]
    assert rules == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert r"$\dagger$ better than run\par" in text
    assert "the range of the mean over all orders of tied documents\\par" in text


def test_everything_else_is_in_comments() -> None:
    text = render_latex(document(table()))
    before = text[: text.index(r"\begin{table}")].strip().splitlines()
    assert all(line.startswith("% ") for line in before)
    assert {"% second line", "% \\input{evil}", "% with its fix", "% of two lines"} <= set(before)
    assert r"% needs \usepackage{booktabs}" in before
    assert "\\input" not in text[text.index(r"\begin{table}") :]


def test_details_are_left_out_of_the_short_form() -> None:
    detail = Table("Detail", [Column("name", numeric=False)], [[Cell("value")]], detail=True)
    assert "Detail" not in render_latex(document(table(), detail))
    assert r"\caption{Detail (" in render_latex(document(table(), detail), verbose=True)
    assert render_latex(document()).endswith("% no table has a row\n")


def test_a_long_table_continues_on_the_next_page() -> None:
    text = render_latex(document(table(rows=41)))
    assert r"\usepackage{booktabs,longtable}" in text
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == text.count(r"\endhead") == 1


@pytest.mark.parametrize(
    ("name", "need"),
    [
        ("plain", None),
        ("größer", r"pdflatex needs \usepackage[T1]{fontenc}"),
        ("検索", "compile it with lualatex or xelatex"),
    ],
)
def test_letters_that_pdflatex_does_not_know_are_noted(name: str, need: str | None) -> None:
    text = render_latex(document(table(name=name)))
    assert name in text
    noted = [line for line in text.splitlines() if "pdflatex" in line]
    assert len(noted) == (need is not None)
    assert need is None or need in noted[0]


def test_every_row_of_a_comparison_has_all_columns() -> None:
    text = render(sample_report(), "latex", verbose=True)
    found = parts(text)
    assert len(found) > 3
    assert all(len(row) == len(alignment) for alignment, rows in found for row in rows)
    assert not re.search(r"[▲▼≈✓✕−·–…†‡]", text[text.index(r"\begin{") :])


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_pdflatex_compiles_the_tables(tmp_path: Path) -> None:
    if subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False).returncode:
        pytest.skip("LaTeX's package booktabs is not installed")
    run = {query: {"a": 2.0, "b": 1.0} for query in ("q_1", "q&2")}
    runs = {HOSTILE: run, "[b": {query: {"b": 2.0} for query in run}, "*c--": run}
    evaluated = harness.evaluate(runs, {query: {"a": 1} for query in run}, "nDCG@10,AP")
    inputs = {
        "hostile": render_latex(document(table(), table(rows=45))),
        "comparison": render(sample_report(), "latex", verbose=True),
        "eval": evaluated.render("latex", per_query=True),
    }
    for name, text in inputs.items():
        (tmp_path / f"{name}.tex").write_text(text, encoding="utf-8")
    body = "\n".join(rf"\input{{{name}}}" for name in inputs)
    preamble = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs,longtable}"
    (tmp_path / "paper.tex").write_text(rf"{preamble}\begin{{document}}{body}\end{{document}}", encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 0
