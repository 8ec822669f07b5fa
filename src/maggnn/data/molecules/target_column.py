"""The interpretation of target columns as numbers or classes, with the same rules for all commands.

    missing     an empty cell, and NA, N/A, n.a., NaN, null, None, nil, ?, <NA>, #N/A, #NA in any case; a row is left
                out if all of its targets are missing
    booleans    true/false, t/f, yes/no, y/n in any case and 1/0 are two classes, also if they are mixed
    numbers     with a decimal point, within the range of float32; 1.0 is the class 1
    labels      in numeric and then alphabetical order; of two opposites, such as active and inactive, the positive one
                is last, so that its probability is reported

`target_kind` reads the whole column. With "auto", booleans, the integers 0, 1, ... (at most 20 of them) and text are
classes, and other numbers are numbers. It raises an error that names the choice if a column is ambiguous: few integers
that do not start at 0, numbers mixed with text, numbers with units or signs such as "12 nM" or ">10", labels that
differ only in case, decimal commas, or dates. Several columns must either all have two classes or all have numbers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from maggnn.data.molecules.rows import open_table
from maggnn.errors import InputError
from maggnn.graphs.batch import Task

TaskChoice = Literal["auto", "classification", "regression"]

MISSING = frozenset({"", "na", "n/a", "n.a.", "nan", "-nan", "null", "none", "nil", "?", "<na>", "#n/a", "#na"})
"""The cells that mean a missing value, in lower case."""

TRUTH = {"false": 0, "f": 0, "no": 0, "n": 0, "0": 0, "true": 1, "t": 1, "yes": 1, "y": 1, "1": 1}
"""Boolean values, in lower case."""

NEGATIONS = ("in", "un", "im", "no", "non", "not")
"""Prefixes that make a label the opposite of another, such as inactive, non-toxic and not_soluble."""

OPPOSITES = (("-", "+"), ("low", "high"), ("decoy", "active"))
"""Further pairs of labels, the positive one last, in lower case, whose alphabetical order is the other one."""

MOST_CLASSES = 20
"""Columns with more different integers are interpreted as numbers."""

MOST_LABELS = 100
"""The largest number of classes; more are considered a mistake."""

MOST_NAMED = 3
"""The largest number of columns that a message names."""

LONGEST_LABEL = 200
"""The largest number of characters of a label; a longer one is considered a mistake."""

LARGEST, LEAST_SPREAD = 1e30, 1e-30
"""The largest value and the smallest spread of targets, because networks compute in float32."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}(\.0*)?")
_PADDED = re.compile(r"[+-]?0[0-9]")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*(,[0-9]+)+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}([ T].*)?|[0-9]{1,2}[-/.][0-9]{1,2}[-/.]([0-9]{4}|[0-9]{2})")
_QUANTITY = re.compile(r"[^\w(\[]*[0-9][-0-9.,'’_\s±/–−]*([eE][+-]?[0-9]+)?[^0-9]*[0-9]?")
"""A number with signs before it (>10, −1.5, $3), with a second number (1.2 ± 0.3, 10-20) or with a unit (12 nM, 45%,
3 mg/m3). It does not match names that only begin with a number, such as 5-HT1A."""


@dataclass(frozen=True)
class TargetKind:
    """The kind of the targets.

    Attributes:
        classes: the labels of one column of classes, in order; else empty.
        labels: the labels of each of several two-class columns; else empty.
        why: how they were interpreted, and why, in one line.
        guessed: whether the kind was inferred and not given.
    """

    classes: tuple[str, ...] = ()
    why: str = ""
    guessed: bool = False
    labels: tuple[tuple[str, ...], ...] = ()

    @property
    def task(self) -> Task:
        if self.labels:
            return "multilabel"
        return "classification" if self.classes else "regression"

    def values(self, names: Sequence[str], texts: Sequence[str], partial: bool = False) -> tuple[float, ...]:
        """Convert the cells of a row to numbers, or to the indices of their classes.

        Args:
            names: the names of the columns.
            texts: the cell of each column.
            partial: whether a missing cell becomes NaN if another one is present; else it is an error.
        """
        missing = [is_missing(text) for text in texts]
        if all(missing) or (any(missing) and not partial):
            place = missing.index(True)
            what = (
                f"target {names[place]!r} is missing" if len(names) == 1 or not all(missing) else "no target is known"
            )
            raise InputError(what + (f" ({texts[place].strip()})" if texts[place].strip() else ""))
        return tuple(
            math.nan if gone else self._value(place, name, text)
            for place, (name, text, gone) in enumerate(zip(names, texts, missing, strict=True))
        )

    def value(self, name: str, text: str) -> float:
        """Convert a cell of the only column."""
        return self.values([name], [text])[0]

    def _value(self, place: int, name: str, text: str) -> float:
        classes = self.labels[place] if self.labels else self.classes
        if classes:
            return float(_class_place(classes, name, text))
        value = as_number(text)
        if value is None:
            raise InputError(f"target {name!r} is {_short(text)!r}, not a number")
        if abs(value) > LARGEST:
            raise InputError(f"target {name!r} is {_short(text)!r}, but the largest possible value is {LARGEST:g}")
        return value


def _class_place(classes: Sequence[str], name: str, text: str) -> int:
    label = label_of(text)
    if label in classes:
        return list(classes).index(label)
    truth = TRUTH.get(label.casefold())
    if truth is not None and are_truth(classes):
        return truth
    listed = ", ".join(classes[:MOST_CLASSES])
    raise InputError(f"target {name!r} is {_short(text)!r}, not one of the classes {listed}")


@dataclass
class _Column:
    """The values of a column that are not missing, with their counts and first lines."""

    where: str
    counts: Counter[str] = field(default_factory=Counter)
    lines: dict[str, int] = field(default_factory=dict)
    num_missing: int = 0

    def add(self, text: str, line: int) -> None:
        if is_missing(text):
            self.num_missing += 1
            return
        label = label_of(text)
        self.counts[label] += 1
        self.lines.setdefault(label, line)

    def example(self, labels: Iterable[str]) -> str:
        """Return the first of some values, and its line."""
        first = min(labels, key=self.lines.__getitem__)
        return f"{_short(first)!r} in line {self.lines[first]}"


def is_missing(text: str) -> bool:
    """Whether a cell means a missing value."""
    return text.strip().casefold() in MISSING


def as_number(text: str) -> float | None:
    """Return a finite number in the usual notation, or None; Python's `float` would accept 1_000 and infinity too."""
    text = text.strip()
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def label_of(text: str) -> str:
    """Normalise a class label: without surrounding blanks, and 1.0 becomes 1; a code such as 007 stays as it is."""
    label = text.strip()
    return str(int(float(label))) if _WHOLE.fullmatch(label) and not _PADDED.match(label) else label


def target_kind(path: Path, targets: Sequence[str], task: str = "auto") -> TargetKind:
    """Return the kind of a table's target columns; raises an `InputError` that names the choice if it is ambiguous.

    Args:
        task: "classification" or "regression", or "auto" to infer it from the values.
    """
    if task not in get_args(TaskChoice):
        raise InputError(f"--task is {task!r}: give {', '.join(get_args(TaskChoice))}")
    _check_named(path, targets)
    columns = _read_columns(path, targets)
    if len(columns) > 1 and task == "classification":
        labels = tuple(_two_classes(column) for column in columns)
        return TargetKind((), f"{_named(targets)} two classes each, as given by --task", labels=labels)
    if task == "classification":
        return TargetKind(_classes(columns[0]), f"column {targets[0]!r} has classes, as given by --task")
    for column in columns:
        _check_notation(column, ", or give --task classification if they are labels")
    if task == "regression":
        return TargetKind((), f"{_named(targets)} numbers, as given by --task")
    return _several(targets, columns) if len(columns) > 1 else _guessed(columns[0])


def _check_named(path: Path, targets: Sequence[str]) -> None:
    if not targets:
        raise InputError(f"{path}: name at least one target column")
    repeated = [name for name, count in Counter(targets).items() if count > 1]
    if repeated:
        raise InputError(f"{path}: target {repeated[0]!r} is given twice")


def _named(targets: Sequence[str]) -> str:
    names = ", ".join(map(repr, targets[:MOST_NAMED]))
    rest = f" and {len(targets) - MOST_NAMED} more" if len(targets) > MOST_NAMED else ""
    return f"column {names} has" if len(targets) == 1 else f"columns {names}{rest} have"


def _several(targets: Sequence[str], columns: Sequence[_Column]) -> TargetKind:
    """Return the kind of several columns, which must all have two classes or all have numbers."""
    for column in columns:
        if len(column.counts) < 2:
            found = next(iter(column.counts), None)
            what = "no value" if found is None else f"only the value {_short(found)!r}"
            raise InputError(f"{column.where} has {what}: there is nothing to learn, so leave it out")
    kinds = [_guessed(column) for column in columns]
    if not any(kind.classes for kind in kinds):
        return TargetKind((), f"{_named(targets)} numbers", guessed=True)
    classes = next(place for place, kind in enumerate(kinds) if kind.classes)
    numbers = next((place for place, kind in enumerate(kinds) if not kind.classes), None)
    if numbers is not None:
        raise InputError(
            f"{columns[classes].where} looks like classes and column {targets[numbers]!r} like numbers: fit a separate "
            "model for each kind, or give --task regression to use all as numbers"
        )
    labels = tuple(_two_classes(column) for column in columns)
    return TargetKind((), f"{_named(targets)} two classes each", True, labels)


def _two_classes(column: _Column) -> tuple[str, ...]:
    classes = _classes(column)
    if len(classes) > 2:
        raise InputError(
            f"{column.where} has {len(classes)} classes: several targets must have two each; fit a separate model for "
            "this one, or give --task regression if its values are numbers"
        )
    return classes


def _read_columns(path: Path, targets: Sequence[str]) -> list[_Column]:
    table = open_table(path)
    places = [table.place(name) for name in targets]
    columns = [_Column(f"{path}: column {name!r}") for name in targets]
    for record in table.records():
        if not record.reason:
            for column, place in zip(columns, places, strict=True):
                column.add(record.cells[place], record.line)
    return columns


def _guessed(column: _Column) -> TargetKind:
    """Infer classes or numbers from the values of a column."""
    name, found = column.where.partition(": ")[2], column.counts
    if not found:  # the errors of the rows say why
        return TargetKind((), f"{name} has no value", guessed=True)
    if _all_truth(found) and not (len(found) == 1 and all(map(_WHOLE.fullmatch, found))):
        classes = _classes(column)
        why = f"{name} is interpreted as classes: its values are {' and '.join(classes)}{_other(found)}"
        return TargetKind(classes, why, guessed=True)
    numbers = {label for label in found if as_number(label) is not None}
    if not numbers:
        _check_not_quantities(column)
        _check_case(column)
        classes = _classes(column)
        why = f"{name} is interpreted as classes: it has {len(classes)} labels and no number"
        return TargetKind(classes, why, guessed=True)
    _check_all_numbers(column)
    if _count_from_zero(found):
        why = f"{name} is interpreted as classes: its values are the whole numbers 0 to {len(found) - 1}{_other(found)}"
        return TargetKind(_classes(column), why, guessed=True)
    _check_not_codes(column)
    return TargetKind((), f"{name} is interpreted as numbers: it has {len(found)} different values", guessed=True)


def _other(found: Counter[str]) -> str:
    """Return a hint how to use numbers instead, if the labels are numbers."""
    return " (--task regression uses them as numbers)" if all(map(_WHOLE.fullmatch, found)) else ""


def known_numbers(path: Path, targets: Sequence[str]) -> TargetKind:
    """Return the kind of target columns for a model of numbers; raises an error for other notations of numbers."""
    _check_named(path, targets)
    for column in _read_columns(path, targets):
        _check_notation(column, "")
    return TargetKind((), f"{_named(targets)} numbers, as the model predicts")


def _check_notation(column: _Column, labels: str) -> None:
    """Raise an error for numbers in an unsupported notation, which would otherwise become classes or missing values.

    Args:
        labels: advice for the case that they are labels, if a command has an option for it.
    """
    commas = [label for label in column.counts if _DECIMAL_COMMA.fullmatch(label)]
    if commas:
        raise InputError(
            f"{column.where} has numbers with commas ({column.example(commas)}): write a decimal point and no "
            f"thousands separators{labels}"
        )
    dates = [label for label in column.counts if _DATE.fullmatch(label)]
    if dates:
        raise InputError(
            f"{column.where} has dates ({column.example(dates)}): write them as numbers, such as days since the "
            f"first{labels}"
        )


def _check_all_numbers(column: _Column) -> None:
    texts = [label for label in column.counts if as_number(label) is None]
    if texts:
        count = sum(column.counts[label] for label in texts)
        raise InputError(
            f"{column.where} mixes numbers with text ({count} of {column.counts.total()} values are not numbers, the "
            f"first is {column.example(texts)}): give --task regression to leave these rows out, --task classification "
            "to use every value as a label, or write NA for missing values"
        )


def _check_not_codes(column: _Column) -> None:
    """Raise an error for few repeated integers, which may be codes of classes or counts."""
    found = column.counts
    few = 1 < len(found) <= MOST_CLASSES and found.total() >= 2 * len(found)
    if few and all(_WHOLE.fullmatch(label) for label in found):
        listed = ", ".join(sorted(found, key=_order))
        raise InputError(
            f"{column.where} has few whole numbers ({listed}), which may be classes or numbers: give --task "
            "classification or --task regression"
        )


def _check_not_quantities(column: _Column) -> None:
    """Raise an error if most labels are measured values with a unit or a sign, each of which would become a class."""
    quantities = [label for label in column.counts if _QUANTITY.fullmatch(label)]
    if 2 * len(quantities) > len(column.counts):
        raise InputError(
            f"{column.where} has numbers with units or signs ({column.example(quantities)}): write the numbers alone, "
            "or give --task classification if they are labels"
        )


def _check_case(column: _Column) -> None:
    seen: dict[str, str] = {}
    for label in column.counts:
        other = seen.setdefault(label.casefold(), label)
        if other != label:
            raise InputError(
                f"{column.where} has labels that differ only in case ({_short(other)!r}, {column.example([label])}): "
                "write them in the same way, or give --task classification if they are different classes"
            )


def _classes(column: _Column) -> tuple[str, ...]:
    """Return the labels in order, of two opposites the positive one last; boolean values share one pair of names."""
    found = column.counts
    if not found:
        raise InputError(f"{column.where} has no value: all cells are missing")
    labels = _truth_names(found) if _all_truth(found) else _positive_last(sorted(found, key=_order))
    if len(labels) == 1:
        raise InputError(f"{column.where} has only one class, {labels[0]!r}: there is nothing to learn")
    if len(labels) > MOST_LABELS:
        raise InputError(f"{column.where} has {len(labels)} classes, but at most {MOST_LABELS} are allowed")
    long = [label for label in found if len(label) > LONGEST_LABEL]
    if long:
        raise InputError(
            f"{column.where} has a label of {len(long[0])} characters ({column.example(long[:1])}): at most "
            f"{LONGEST_LABEL} are allowed"
        )
    return labels


def _positive_last(labels: Sequence[str]) -> tuple[str, ...]:
    """Return two opposite labels with the positive one last, whose probability is reported; others stay in order."""
    if len(labels) != 2:
        return tuple(labels)
    first, second = (label.casefold() for label in labels)
    opposite = (second, first) in OPPOSITES or second in {
        prefix + mark + first for prefix in NEGATIONS for mark in ("", "-", "_", " ")
    }
    return (labels[1], labels[0]) if opposite else tuple(labels)


def _all_truth(labels: Iterable[str]) -> bool:
    return all(label.casefold() in TRUTH for label in labels)


def are_truth(classes: Sequence[str]) -> bool:
    """Whether classes are one false and one true, in this order."""
    return [TRUTH.get(label.casefold()) for label in classes] == [0, 1]


def _truth_names(found: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the two boolean classes: the column's own if it has one of each, else false and true."""
    labels = {label.casefold() for label in found}
    if len(labels) == 2 and are_truth(sorted(labels, key=TRUTH.__getitem__)):
        return tuple(sorted(labels, key=TRUTH.__getitem__))
    values = sorted({TRUTH[label] for label in labels})
    return tuple(labels) if len(labels) == 1 else tuple(("false", "true")[value] for value in values)


def _count_from_zero(found: Counter[str]) -> bool:
    return 1 < len(found) <= MOST_CLASSES and set(found) == {str(number) for number in range(len(found))}


def _order(label: str) -> tuple[float, str]:
    """Return a sort key: numbers in numeric order, then texts in alphabetical order."""
    value = as_number(label)
    return (math.inf if value is None else value, label)


def _short(text: str) -> str:
    """Shorten a cell for a message."""
    return text if len(text) <= 40 else f"{text[:40]}..."
