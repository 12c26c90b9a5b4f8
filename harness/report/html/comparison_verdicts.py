"""What a comparison came to, in a few lines: failures, parity, differences in quality, speed."""

from __future__ import annotations

from harness.report import differences
from harness.report.document import Tone, Verdict
from harness.results.schema import PairedDifference, ParityStats, Result, TrialResult
from harness.wording import counted

__all__ = ["against_reference", "reference_of", "verdicts"]

_NAMED = 3
_APPROXIMATE = "approximate search"
"""The cause by which an index that leaves vectors out of sight differs."""


def verdicts(report: Result) -> list[Verdict]:
    """The verdict's lines, the most pressing first."""
    lines = [Verdict("bad", f"{one.label} failed", one.error.message) for one in report.trials if one.error is not None]
    return [*lines, *_pitfalls(report), *_parity(report), *_quality(report), *_speed(report)]


def _pitfalls(report: Result) -> list[Verdict]:
    """Return what may make figures meaningless, one line a check: its first finding, and of whom there are others."""
    lines = []
    for check in dict.fromkeys(finding.check for finding in report.findings):
        first, *others = [finding for finding in report.findings if finding.check == check]
        about = f"{first.backend}: " if first.backend is not None else ""
        more = f"; also {_list([finding.backend or 'another' for finding in others])}" if others else ""
        detail = f"{first.fix} ({check}{more})"
        lines.append(Verdict("unsure", about + first.message, detail))
    return lines


def reference_of(report: Result) -> str | None:
    """The backend that others are compared with; the first that did not fail where all pairs are."""
    first = next((one.label for one in report.trials if one.status == "ok"), None)
    return differences.reference_of(report) or first


def against_reference(report: Result, label: str, metric: str) -> PairedDifference | None:
    """A backend against the reference on a metric, as ``label`` minus reference; None where that was not tested."""
    reference = reference_of(report)
    for row in report.differences:
        if (row.a, row.b, row.metric) == (reference, label, metric):
            return row
    return None


def _parity(report: Result) -> list[Verdict]:
    """Backends that differ from their exact reference, one line each; then those that do not, in one."""
    held = [(one.label, one.parity) for one in report.trials if one.parity is not None]
    right = [(label, parity) for label, parity in held if not parity.different]
    lines = [_broken(label, parity) for label, parity in held if parity.different]
    if right:
        labels, queries = [label for label, _ in right], right[0][1].queries
        what = f"{_list(labels)} return what their scoring functions say"
        if len(labels) == 1:
            what = f"{labels[0]} returns what its scoring function says"
        elif len(labels) == len(report.trials):
            what = "Every backend returns what its scoring function says"
        detail = "; ".join(
            f"{label}: {p.bit_equal:,} of {counted(queries, 'query')} to the bit, {p.tie_equivalent:,} up to ties"
            for label, p in right
        )
        where = f"on all {queries:,} queries" if queries != 1 else "on the one query"
        lines.append(Verdict("good", f"{what}, {where}", detail))
    return lines


def _broken(label: str, parity: ParityStats) -> Verdict:
    """Of an approximate index, which may differ, how much of the exact best it finds; of others, how often they do."""
    causes = ", ".join(f"{cause} ({count:,})" for cause, count in parity.causes.items())
    detail = f"proven causes: {causes}" if causes else ""
    unknown = parity.causes.get("unknown", 0)
    if _APPROXIMATE in parity.causes and not unknown:
        found = " and ".join(f"{_below_all(share):.2%} of the best {depth}" for depth, share in parity.overlap.items())
        return Verdict("plain", f"Of what exact search finds, {label} has {found.replace('%', ' %')}", detail)
    headline = f"{label} differs from its exact reference on {parity.different:,} of {counted(parity.queries, 'query')}"
    return Verdict("bad" if unknown else "unsure", headline, detail)


def _below_all(share: float) -> float:
    """A share that is not all of it does not read as if it were."""
    return share if share == 1.0 else min(share, 0.9999)


def _quality(report: Result) -> list[Verdict]:
    scored = [one for one in report.trials if one.metrics]
    if len(scored) < 2:
        return _single(scored)
    metric, reference = next(iter(scored[0].metrics)), reference_of(report)
    others = [(one, against_reference(report, one.label, metric)) for one in scored if one.label != reference]
    lines = []
    for one, row in others:
        if row is not None and row.verdict in ("better", "worse") and not row.within_ties:
            interval = f" [{row.ci_low:+.4f}, {row.ci_high:+.4f}]" if row.ci_low is not None else ""
            better = counted(row.wins, "query")
            detail = f"{row.difference:+.4f}{interval}; {better} better, {row.ties:,} tied, {row.losses:,} worse"
            tone: Tone = "good" if row.verdict == "better" else "bad"
            lines.append(
                Verdict(tone, f"{one.label} is {row.verdict} than {reference} on {metric}", detail.replace("-", "−"))
            )
    same = [one.label for one, row in others if row is not None and row.verdict == "same"]
    unsure = [
        one.label
        for one, row in others
        if row is not None and (row.verdict == "undecided" or (row.within_ties and row.verdict != "same"))
    ]
    if same:
        lines.append(Verdict("good", f"{_list([*same, str(reference)])} have the same {metric} on every query"))
    if unsure:
        means = "; ".join(f"{one.label} {one.metrics[metric].mean:.4f}" for one in scored)
        lines.append(
            Verdict("unsure", f"No significant difference in {metric} between {reference} and {_list(unsure)}", means)
        )
    return lines


def _single(scored: list[TrialResult]) -> list[Verdict]:
    if not scored:
        return []
    metric, value = next(iter(scored[0].metrics.items()))
    interval = f"95 % interval [{value.ci_low:.3f}, {value.ci_high:.3f}]" if value.ci_low is not None else ""
    return [Verdict("plain", f"{scored[0].label}: {metric} {value.mean:.4f}", interval)]


def _speed(report: Result) -> list[Verdict]:
    timed = [
        (one.search.milliseconds.p50, one.search.milliseconds.p95, one.label)
        for one in report.trials
        if one.search is not None and one.search.milliseconds is not None and not one.reused
    ]
    if len(timed) < 2:
        return []
    fastest = min(timed)
    detail = "; ".join(f"{label}: p50 {p50:.3f} ms, p95 {p95:.3f} ms" for p50, p95, label in timed)
    return [Verdict("plain", f"{fastest[2]} has the lowest median latency, {fastest[0]:.3f} ms", detail)]


def _list(labels: list[str]) -> str:
    if len(labels) > _NAMED:
        return f"{', '.join(labels[:_NAMED])} and {len(labels) - _NAMED} more"
    return " and ".join([", ".join(labels[:-1]), labels[-1]]) if len(labels) > 1 else labels[0]
