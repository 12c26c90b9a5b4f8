"""Write whole pages of the documentation from the tables of the package: metrics, conventions, prompts, settings."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from harness.cli.cards import accepted_values, value_text
from harness.cli.config import FILE_NAME, configured_verbs
from harness.cli.init import Choices, template
from harness.cli.matrix import CAPABILITIES, LEGEND, matrix_row
from harness.cli.verb import DeclaredVerb, VerbGroup
from harness.cli.verbs import VERBS, load_verb
from harness.data.columns import GOLDEN_ROLES, JUDGMENT_ROLES, RECORDS, RUN_ROLES, Role
from harness.data.golden_fields import ANSWERS
from harness.data.golden_shapes import SHAPES
from harness.data.judgment_exports import EXPORTS
from harness.data.memory import QRELS, RUNS, Shape
from harness.encoders.prompts import KnownPrompts, published_prompts
from harness.loaders.run_lines import LAYOUTS
from harness.loaders.svmrank import EXAMPLE as SVMRANK
from harness.metrics.conventions import ASPECTS, CONVENTIONS, HARNESS, Aspect, Convention
from harness.metrics.kind import Kind, Parameter
from harness.metrics.parse import find_kind
from harness.metrics.table import KINDS, NOT_OFFERED
from harness.plan.config import GROUPS
from harness.plan.option_fields import OptionField
from harness.plan.stages import Stage, fusions, rerankers
from harness.registry.cards import BackendCard
from harness.registry.lookup import find_cards
from harness.registry.proven import proven_engines
from harness.store.neighbour_file import ENTRIES, SIMILARITIES

__all__ = [
    "backends_page",
    "commands_page",
    "config_page",
    "conventions_page",
    "golden_sets_page",
    "metric_section",
    "metrics_page",
    "prompts_page",
    "second_stages_page",
    "shapes_page",
]

_ABOUT_METRICS = """\
# Metrics

Written by `python docs/generate.py` from the table in `harness/metrics/table.py`. [Another package can add a
metric](../how-to/add-a-metric.md) as a NumPy function.

A metric is written `Name(parameter=value)@cutoff`: `nDCG@10`, `AP(rel=2)@100`, `RBP(p=0.9)`.
`nDCG@1+3+5+10` is the mean over these cutoffs, of any metric that takes a rank as its cutoff. Names are
case-insensitive, aliases and trec_eval's own names (`ndcg_cut_10`, `recall_100`, `map`) are accepted, and the
canonical name is shown. R is the number of relevant documents of a query; a document is relevant if its grade is at
least `rel`, which defaults to `--relevance` (1). Higher is better for every metric except the counts
and `Forbidden`. An unanswered query and a query without relevant documents have the value 0, and every average states
[its queries](../explanation/ties.md#which-queries-count).

*average* shows whether `--ties average` is offered; *interval* whether the lowest and highest value that ties allow
are known exactly. Values equal trec_eval's if the table has a name of trec_eval. Release 9 (as in pytrec_eval) and
release 10 compute them alike, unless a number in brackets names the release; `harness eval --trec-eval 10` reads
trec_eval's names as in release 10. Release 10 was not run for this: the formulas come from its source before the
release, and only `rbp` was compared with values that its own test prints.

Names of other tools are accepted if they mean the same:

- trec_eval and pytrec_eval: `map_cut.10,100`, `ndcg_cut_10`, `P.5,10`, `iprec_at_recall.0.1,0.2`, `set_F.0.5`, and
  `ndcg_cut` for its default cutoffs.
- BEIR: `NDCG@10`, `MAP@100`, `Recall@10`, `P@10`, `MRR@10`, `R_cap@10`. `Hole@10` is refused: it counts a document as
  judged if any query judged it.
- MTEB: `ndcg_at_10`, `map_at_10`, `mrr_at_10`, `precision_at_1`, `hit_rate_at_5`.
- ranx: `hit_rate@5`, `hits@5`, `f1@5`, `r-precision`, `ndcg_burges@10` (exponential gain), `map@10-l2` (grade 2 is the
  lowest relevant one). `rbp.95` is refused: its gains are whole grades.
- LlamaIndex: `hit_rate`, `mrr`.
"""


def metrics_page() -> str:
    """Return the page on metrics, as Markdown."""
    head = "| metric | meaning | trec_eval | aliases | average | interval |\n| --- | --- | --- | --- | --- | --- |"
    rows = [_metric_row(kind) for kind in KINDS.values()]
    sections = ["\n".join(_metric_lines(kind)) for kind in KINDS.values()]
    missing = [f"| `{name}` | {reason} |" for name, reason in NOT_OFFERED.items()]
    left_out = ["## Metrics of trec_eval that are not offered", "", "| trec_eval | meaning |", "| --- | --- |"]
    about = [_ABOUT_METRICS, *_condensed_lines(), ""]
    return "\n".join([*about, head, *rows, "", "\n\n".join(sections), "", *left_out, *missing, ""])


def _condensed_lines() -> list[str]:
    """Return the paragraph on the parameter that nearly all metrics take."""
    names = ", ".join(f"`{kind.name}`" for kind in KINDS.values() if not kind.condensable)
    text = (
        "`nDCG(judged_only=True)@10` is nDCG@10 on the condensed list, without hits that have no judgment (`trec_eval "
        "-J`; [more](../how-to/score-a-run.md#hits-without-a-judgment)). Every metric takes this parameter except "
        f"{names}."
    )
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def metric_section(name: str) -> str:
    """Return the section of one metric, as Markdown, by its name without a cutoff; another package's too.

    Raises UnknownNameError with the nearest name.
    """
    return "\n".join(_metric_lines(find_kind(name)))


def _metric_row(kind: Kind) -> str:
    aliases = ", ".join(f"`{alias}`" for alias in kind.aliases) or "–"
    average = "yes" if kind.average is not None else "no"
    interval = "yes" if kind.bounded else "no"
    return f"| `{kind.name}` | {kind.summary} | {_trec_names(kind)} | {aliases} | {average} | {interval} |"


def _trec_names(kind: Kind) -> str:
    names = [f"`{kind.trec}`"] if kind.trec else []
    names += [f"`{kind.trec_cut}_k`"] if kind.trec_cut else []
    of_release = f" ({kind.release})" if kind.release is not None else ""
    return f"{', '.join(names)}{of_release}" if names else "–"


def _metric_lines(kind: Kind) -> Iterator[str]:
    cutoff = {
        "none": "none",
        "optional": f"a rank, `{kind.name}@10`, or none for all hits",
        "required": f"a rank, `{kind.name}@10`",
        "recall": f"a recall point from 0 to 1, `{kind.name}@0.5`",
    }[kind.cutoff]
    over_queries = {"mean": "mean", "sum": "sum", "geometric": "geometric mean"}[kind.aggregate]
    yield f"## {kind.name}"
    yield ""
    yield f"- formula: {kind.formula}"
    settings = [
        f"`{parameter.name}`: {parameter.help}; {_accepted(parameter)}, default `{parameter.default}`"
        for parameter in kind.parameters
    ]
    yield "; ".join([f"- range: {kind.range}", f"over queries: {over_queries}", f"cutoff: {cutoff}", *settings])
    yield f"- source: {kind.source}"


def _accepted(parameter: Parameter) -> str:
    if parameter.choices:
        return " or ".join(f"`{choice}`" for choice in parameter.choices)
    kind = "whole number" if parameter.type is int else "number"
    low, high = parameter.minimum, parameter.maximum
    if parameter.name == "gains":
        return "grade=gain, separated by commas"
    if parameter.above:
        return f"{kind} above {low:g}"
    if low is not None and high is not None:
        return f"{kind} from {low:g} to {high:g}"
    return kind if low is None else f"{kind} of at least {low:g}"


_ABOUT_CONVENTIONS = """\
# Metric conventions of other tools

Written by `python docs/generate.py` from the table in `harness/metrics/conventions.py`, which `harness eval --audit`
[uses to score a run](../how-to/score-a-run.md#find-the-convention-behind-a-number).

Tools that report nDCG@10 of one run can differ in the order of equal scores, the gain of a grade, and the queries in
the average. The table has the default of each tool, read from the code of the version named below; a value in bold
differs from this package's own convention, the column *harness*.
"""

_CONVENTIONS_CHECKED = """\
## Verification

On random runs with equal scores, unanswered queries, identical ids, and graded, zero and negative judgments the values
match pytrec_eval (for trec_eval 9 and Anserini), `EvaluateRetrieval` of beir, MTEB's retrieval evaluator,
`InformationRetrievalEvaluator.compute_metrics` of sentence-transformers and `ranx.evaluate`, up to the digits to which
the library rounds. The tests of beir and ranx run if these are installed, which they are not in this project's own
test environment; they passed with the versions above. Anserini's own search was not run for this: its rules come from
its source and its published regressions. trec_eval 10 was not run either, as its section says.
"""


def conventions_page() -> str:
    """Return the page on the conventions of other tools, as Markdown."""
    names = [HARNESS.name, *(convention.name for convention in CONVENTIONS)]
    head = [f"| aspect | {' | '.join(names)} |", f"|{' --- |' * (len(names) + 1)}"]
    rows = [f"| {aspect.title} | {' | '.join(_choices(aspect))} |" for aspect in ASPECTS]
    return "\n".join([_ABOUT_CONVENTIONS, *head, *rows, "", *_of_conventions(), _CONVENTIONS_CHECKED])


def _choices(aspect: Aspect) -> Iterator[str]:
    own = getattr(HARNESS.settings, aspect.name)
    for convention in (HARNESS, *CONVENTIONS):
        value = getattr(convention.settings, aspect.name)
        text = aspect.describe(value)
        yield text if value == own else f"**{text}**"


def _of_conventions() -> Iterator[str]:
    for convention in CONVENTIONS:
        yield f"## {convention.name}"
        yield ""
        yield f"- library: {convention.library}, version {convention.version}; decided in {convention.source}"
        yield f"- {convention.note}"
        yield from _exceptions(convention)
        if convention.decimals is not None:
            yield f"- means are rounded to {convention.decimals} digits"
        yield f"- metrics at a rank: {_names(convention.metrics)}"
        yield f"- metrics without a cutoff: {_names(convention.uncut)}"
        yield ""


def _names(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _exceptions(convention: Convention) -> Iterator[str]:
    titles = {aspect.name: aspect for aspect in ASPECTS}
    for name, changed in convention.exceptions.items():
        texts = (f"{titles[key].title} {titles[key].describe(value)}" for key, value in changed.items())
        yield f"- {name} differs: {', '.join(texts)}"


_ABOUT_PROMPTS = """\
# Prompts that models need

Written by `python docs/generate.py` from the table in `harness/encoders/prompts.toml`.

These models were trained with a text before each query, and some with another before each document. A model of the hub
gets them by its name, a folder by the `_name_or_path` of its `config.json`, if the model's own
`config_sentence_transformers.json` declares only empty prompts; see
[Prompts](../how-to/dense-and-sparse-models.md#prompts) for the order of precedence. The figures of these models were
not measured here with them. For other models, set the prompts yourself.
"""
_PROMPTS_HEAD = "| models | `query_prompt` | `document_prompt` | stated by |\n| --- | --- | --- | --- |"


_ABOUT_SHAPES = """\
# Accepted shapes

Written by `python docs/generate.py` from the tables of shapes in `harness/`.

Files may be compressed. A file's ending decides how it is read (`.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.json`,
`.parquet`), and the content of a file with any other ending. `--columns`, in Python `columns=`, names fields that are
called otherwise; in lines without a header, it names columns by number: `--columns query_id=1,doc_id=2,score=4`. A file
with two readings is refused, and the message names both and the option that decides. Golden sets have [their own
page](golden-sets.md).
"""
_ABOUT_RUNS = """\
## Runs

A run without scores has scores that fall with its ranks. Lines that begin with `#` are comments. Words may follow
TREC's tag, and ids may hold spaces if tabs separate TREC's six columns. MS MARCO's and ColBERT's ranks must count the
hits of each query, from 1 or 0: MS MARCO's in the order of the lines, and ColBERT's in the order of the scores.

| lines of | columns |
| --- | --- |"""
_ABOUT_JUDGMENTS = """\
## Judgments

Grades are numbers. [`harness eval`](../how-to/score-a-run.md#grades-and-gains) takes real-valued grades, a dataset
whole ones. Ratings without a value are left out, and rows with only a query are skipped, as Quepid's CSV has them, with
a warning. Lines that begin with `#` are comments.

| lines of | columns |
| --- | --- |
| TREC | `query 0 document grade` |
| BEIR | `query document grade`, separated by tabs, with or without the header `query-id corpus-id score` |"""
_ABOUT_VECTORS = """\
## Vectors with neighbours

[A dataset without texts](../how-to/dense-and-sparse-models.md#files-of-ann-benchmarks) is one HDF5 file in
ann-benchmarks' layout, recognised by its first bytes or its ending (`.hdf5`, `.h5`) and not compressed. It is both
`--dataset` and `model=precomputed:FILE`. Sets and vectors of bits are refused.

| entry | content |
| --- | --- |"""
_DISTANCES_HEAD = "| `distance` | `similarity=` |\n| --- | --- |"
_FIELDS_HEAD = "| field of a table, with a header or as JSON Lines | names, the first existing one |\n| --- | --- |"
_OBJECTS_HEAD = "| JSON, or the same object in Python |\n| --- |"
_EXPORTS_HEAD = "| JSON of | shape | id of a query |\n| --- | --- | --- |"


def shapes_page() -> str:
    """Return the page on the shapes of runs, judgments and files of vectors, as Markdown."""
    layouts = [f"| {layout.used_by} | `{layout.columns}` |" for layout in LAYOUTS]
    exports = [f"| {export.used_by} | `{export.example}` | {export.query_id} |" for export in EXPORTS]
    return "\n".join(
        [
            _ABOUT_SHAPES,
            *(_ABOUT_RUNS, *layouts, "", _FIELDS_HEAD, *map(_field_row, RUN_ROLES), ""),
            *(_OBJECTS_HEAD, *_object_rows(RUNS.shapes), ""),
            *(_ABOUT_JUDGMENTS, f"| SVMrank, RankLib, LETOR, Elasticsearch's LTR, Quepid | `{SVMRANK}` |", ""),
            *(_FIELDS_HEAD, *map(_field_row, JUDGMENT_ROLES), ""),
            *(_EXPORTS_HEAD, *exports, "", _OBJECTS_HEAD, *_object_rows(QRELS.shapes[len(EXPORTS) :]), ""),
            *(_ABOUT_VECTORS, *(f"| {name} | {content} |" for name, content in ENTRIES.items()), ""),
            *(_DISTANCES_HEAD, *(f"| `{name}` | `{similarity}` |" for name, similarity in SIMILARITIES.items()), ""),
        ]
    )


def _field_row(role: Role) -> str:
    names = ", ".join(f"`{name}`" for name in (role.sure, *role.aliases))
    if role.exclusive:
        names += f"; at most one of them, and `{role.otherwise}` without any"
    return f"| {role.name}{'' if role.required else ' (optional)'} | {names} |"


def _object_rows(shapes: Iterable[Shape[Any]]) -> list[str]:
    return [f"| `{example}` |" for shape in shapes for example in shape.examples]


_ABOUT_GOLDEN = """\
# Golden sets: shapes and names

Written by `python docs/generate.py` from the tables of roles and of shapes in `harness/data/`.
[`harness check`](../how-to/check-a-golden-set.md), `compare --queries`, cards, `harness init` and `harness.Dataset.of`
read golden sets in these shapes, from files and from objects.

## Fields

A field is found by its name, in any case. A record may have at most one of a role's names. The further names count if
it has none of them; a question or expected ids under both, with different content, are an error. `--columns
ROLE=FIELD`, in Python `columns=`, chooses a field with another name, or one of several: a field, or a dotted path into
nested records (`expected=outputs.doc_ids`). A path applies to each element of a list, and to JSON in a cell.

"""

_ABOUT_GOLDEN_SHAPES = """
`query` is another name of the role `question`, and `query_id` of `id`. `id` names the field in questions and in
documents, `query_id` only in questions. `labels` and `citations` hold expected ids only if `--columns` names them.
These fields hold what a system returned, and are never expected: {answers}.
If a record has ids and texts, the ids count. `excluded_ids` (or `excluded_doc_ids`) are ids of documents that are left
out of the question's hits. All other fields are kept for slices.

## Shapes

A golden set is a list of records: JSON Lines, a JSON or YAML list, or a table in CSV, TSV, `.xlsx` or Parquet, plain or
compressed; in Python a list of objects, or a table of any library. Or it has one of these shapes, in any of these
formats:

"""

_BAR = "\\|"
"""A bar in a cell of a table."""
_AFTER_SHAPES = """
The harness never chooses between two fields of one role, two lists or two sheets: the error names both, and the option
that decides.
"""


def golden_sets_page() -> str:
    """Return the page on the shapes and names of golden sets, as Markdown."""
    lines = ["| role | content | names | further names |", "| --- | --- | --- | --- |"]
    for role in GOLDEN_ROLES:
        names, further = (_codes(names) or "–" for names in (role.names, role.further_names))
        lines.append(f"| `{role.name}` | {role.content} | {names} | {further} |")
    lines.append(f"| `{RECORDS}` | the list, or the sheet of a workbook, that holds the records | – | – |")
    about = _ABOUT_GOLDEN_SHAPES.format(answers=", ".join(f"`{name}`" for name in sorted(ANSWERS)))
    shapes = ["| shape | where questions and expected documents are |", "| --- | --- |"]
    shapes += [f"| {shape.name} | {shape.content.replace('|', _BAR)} |" for shape in SHAPES]
    examples = "\n\n".join(f"{shape.name}:\n\n```text\n{shape.example}\n```" for shape in SHAPES)
    return "\n".join(
        [_ABOUT_GOLDEN + lines[0], *lines[1:], about + shapes[0], *shapes[1:], _AFTER_SHAPES, examples, ""]
    )


def _codes(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def prompts_page() -> str:
    """Return the page on prompts, as Markdown."""
    families = groupby(published_prompts().values(), key=lambda one: one[1:])
    return "\n".join([_ABOUT_PROMPTS, _PROMPTS_HEAD, *(_prompt_row(list(models)) for _, models in families), ""])


def _prompt_row(models: list[KnownPrompts]) -> str:
    first = models[0]
    names = ", ".join(f"`{one.model}`" for one in models)
    return f"| {names} | {_spelt(first.query)} | {_spelt(first.document)} | {first.source} |"


def _spelt(prompt: str) -> str:
    """Write a prompt as a backend expression takes it."""
    return f"`{json.dumps(prompt, ensure_ascii=False)}`" if prompt else "–"


_ABOUT_STAGES = """\
# Fusions and second stages

Written by `python docs/generate.py` from `harness/plan/stages.toml`. [Hybrid search and
reranking](../how-to/hybrid-and-reranking.md) describes their use; `harness backends NAME` prints the same parameters.
A parameter whose effect is *none* changes no score, so stored scores are reused with another value.
"""
_PARAMETERS_HEAD = "| parameter | default | takes | effect | meaning |\n| --- | --- | --- | --- | --- |"


def second_stages_page() -> str:
    """Return the page on fusions and rerankers with their parameters, as Markdown."""
    sections = [_stage_section(f"{name}:A+B", stage) for name, stage in fusions().items()]
    sections += [_stage_section(f"A|{name}", stage) for name, stage in rerankers().items()]
    return "\n".join([_ABOUT_STAGES, *sections])


def _stage_section(form: str, stage: Stage) -> str:
    rows = [
        f"| `{parameter.name}` | {_default(parameter.default)} | {accepted_values(parameter)} "
        f"| {'none' if parameter.affects == 'nothing' else parameter.affects} | {parameter.help} |"
        for parameter in stage.parameters.values()
    ]
    return "\n".join(
        [f"## `{form}`", "", f"{stage.summary[0].upper()}{stage.summary[1:]}.", "", _PARAMETERS_HEAD, *rows, ""]
    )


def _default(value: object) -> str:
    return "–" if value == "" else f"`{value_text(value)}`"


_ABOUT_BACKENDS = """\
# Backends and their capabilities

Written by `python docs/generate.py` from the cards and from `harness/registry/proven.json`, which the contract suite
writes (`pytest -m contract --update-proven`); none of it is written by hand. `harness backends` prints the table,
also with `--format markdown` and `json`; `harness backends NAME` shows one backend with its parameters.
"""


def backends_page() -> str:
    """Return the page on the backends, as Markdown: capabilities, verified versions, and gaps."""
    cards = find_cards("backends")
    head = f"| backend | {' | '.join(CAPABILITIES)} | verified on |\n|{'---|' * (len(CAPABILITIES) + 2)}"
    gaps = [line for card in cards.values() for line in _gap_lines(card)]
    return "\n".join(
        [
            *(_ABOUT_BACKENDS, head, *map(_backend_row, cards.values()), ""),
            *(f"- {line}" for line in LEGEND),
            *("", "## Gaps", "", "Tests of the contract that an engine cannot pass, with the reason:", "", *gaps, ""),
        ]
    )


def _backend_row(card: BackendCard) -> str:
    row = matrix_row(card)
    answers = [row.answers[name].replace("-", "–") for name in CAPABILITIES]
    return f"| `{card.name}` | {' | '.join(answers)} | {'; '.join(row.verified_on) or 'not verified'} |"


def _gap_lines(card: BackendCard) -> list[str]:
    support = proven_engines().get(card.engine)
    if support is None:
        raise SystemExit(
            f"harness/registry/proven.json has no entry for '{card.engine}' (backend '{card.name}'): "
            "run pytest -m contract --update-proven with its test file, then again"
        )
    gaps = support.gaps
    return [f"- `{card.name}`: {test.removeprefix('test_').replace('_', ' ')}: {why}" for test, why in gaps.items()]


_ABOUT_CONFIG = f"""# {FILE_NAME}

`harness {{verbs}}` read options that the command line does not set from `{FILE_NAME}` in the current folder, or from
the file that `--config` names; options set in neither have their defaults. A list on the command line replaces the
file's, as every option does. `harness init` [writes such a file](../how-to/run-in-ci.md):

```toml
{{example}}```

- There is a table for each command. Its keys are the command's [options](cli.md#options) and its argument, with `_`
  for `-`: `--no-text` is `no_text = true`, and `--no-timing`, the opposite of `--timing`, is `timing = false`.
- Options without a value take true or false, options with a number a number, and all others a string. An option that
  may be repeated takes a list of strings, or one string; an option that lists names between commas (`LIST`) takes such
  a string, or a list.
- Paths are relative to the file, inside expressions too (`chroma:path=index`, `run:file.trec`).
- Every table is checked, whichever command runs. Unknown tables, unknown keys and wrong types are refused all at once,
  with the nearest match; the exit code is 2.
- stderr names the options taken from the file, and `report.json` holds all options as resolved.
- In Python, the functions of these names take the same names as keywords, except for options of terminal output, and
  read no file. [Pytest](../how-to/run-in-ci.md#in-pytest) reads `[check]`.
"""


def config_page() -> str:
    """Return the page on ``harness.toml``, as Markdown."""
    verbs = configured_verbs()
    example = template(Choices("golden.jsonl", "chunks.jsonl", None, "csr"))
    return _ABOUT_CONFIG.format(verbs="`, `".join(verbs[:-1]) + f"` and `{verbs[-1]}", example=example)


_ABOUT_COMMANDS = """\
# Commands and options

Written by `python docs/generate.py`. `harness COMMAND --help` prints the same for one command, its options in groups.
Results go to stdout, progress and messages to stderr. `NO_COLOR` is honoured. [Exit codes and
errors](exit-codes-and-errors.md) has its own page, and so has [shell
completion](../how-to/install.md#shell-completion).

## Commands
"""
_ABOUT_OPTIONS = """\
## Options

Each option is listed once, with the commands that take it. An option that is on by default has a second flag, which
turns it off.
"""


def commands_page() -> str:
    """Return the page on commands and options, as Markdown: what each command does, then every option once."""
    verbs, parts = dict[str, DeclaredVerb](), [_ABOUT_COMMANDS]
    for name in VERBS:
        loaded = load_verb(name)
        if isinstance(loaded, VerbGroup):
            parts.append("\n".join([f"### harness {name}", "", _filled(loaded.help), ""]))
            below = {f"{name} {each}": verb for each, verb in loaded.verbs.items()}
        else:
            below = {name: loaded}
        parts += [_command_section(*pair) for pair in below.items()]
        verbs |= below
    parts.append(_ABOUT_OPTIONS)
    for group in ("", *GROUPS):
        used: dict[tuple[str, str], list[str]] = {}
        for name, verb in verbs.items():
            for field in verb.fields.values():
                if ("" if field.option.argument else field.option.group) == group:
                    used.setdefault((_flags(field), _meaning(field)), []).append(f"`{name}`")
        if used:
            rows = [f"| {flags} | {', '.join(names)} | {meaning} |" for (flags, meaning), names in used.items()]
            parts += [f"### {group or 'Arguments'}", "", "| option | commands | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(parts)


def _command_section(name: str, verb: DeclaredVerb) -> str:
    said, _, example = (inspect.getdoc(verb.function) or "").partition("Example: ")
    shown = [f"Example: `{' '.join(example.split())}`", ""] if example else []
    return "\n".join([f"### harness {name}", "", _filled(said), "", *shown])


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def _flags(field: OptionField) -> str:
    value = field.metavar.replace("|", "\\|")
    if field.option.argument:
        return f"`{value}`"
    off = f", `--no-{field.flag.removeprefix('--')}`" if field.switches_off else ""
    short = "".join(f", `{flag}`" for flag in field.option.flags if flag != field.flag)
    return f"`{f'{field.flag} {value}'.rstrip()}`{off}{short}"


def _meaning(field: OptionField) -> str:
    default = f" Default: {field.default_text}." if field.default_text and field.kind != "bool" else ""
    return _cell(f"{field.help}{default}")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
