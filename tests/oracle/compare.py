"""compare.py -- one question, two answers, and whether they differ beyond rounding."""
import math
from collections import namedtuple

# case/question; differences: lines, none if both agree; source: where the truth comes from
Outcome = namedtuple("Outcome", "case question ours truth differences source")

ROUNDING = 1e-9  # of a sum or quotient of doubles
SHOWN = 4  # rows of a table that differ


def same(ours, truth, within):
    if ours is None or truth is None:
        return ours is None and truth is None
    if isinstance(truth, str) or isinstance(ours, str):
        return ours == truth
    return abs(ours - truth) <= max(within, ROUNDING * max(abs(ours), abs(truth)))


def short(value):
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value:.10g}"
    text = str(value)
    return text if len(text) <= 160 else text[:157] + "..."


def differences(ours, truth, within, path=""):
    """One line for each figure that differs. Tables are dictionaries, lists are in order."""
    if isinstance(truth, dict):
        if not isinstance(ours, dict):
            return [f"{path}: {short(ours)} is no table"]
        lines = []
        for key in list(truth) + [k for k in ours if k not in truth]:
            at = f"{path}[{short(key)}]"
            if key not in ours:
                lines.append(f"{at}: absent, should be {short(truth[key])}")
            elif key not in truth:
                lines.append(f"{at}: {short(ours[key])}, should be absent")
            else:
                lines += differences(ours[key], truth[key], within, at)
        return lines
    if isinstance(truth, (list, tuple)):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(truth):
            return [f"{path}: {short(ours)}, should be {short(truth)}"]
        return [line for i, (o, t) in enumerate(zip(ours, truth))
                for line in differences(o, t, within, f"{path}[{i}]")]
    if same(ours, truth, within):
        return []
    return [f"{path + ': ' if path else ''}{short(ours)}, should be {short(truth)}"]


class Case:
    """Collects the outcomes of one trace."""

    def __init__(self, name):
        self.name = name
        self.outcomes = []

    def check(self, question, ours, truth, source, within=0):
        """`ours` is a value or a function that asks for it; `within`: absolute tolerance."""
        try:
            answer = ours() if callable(ours) else ours
            lines = differences(answer, truth, within)
        except Exception as error:  # no answer is a wrong answer, and the next question may have one
            answer, lines = None, [f"no answer: {type(error).__name__}: {error}"]
        self.outcomes.append(Outcome(self.name, question, answer, truth, lines, source))
