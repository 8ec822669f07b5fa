"""The best rows of many shards are those of sorting everything at once, whatever is merged with what first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pyarrow = pytest.importorskip("pyarrow")

from maggnn.apps.scale.selection import PLACE, SHARD, Selection, unpacked  # noqa: E402
from maggnn.apps.scale.stages import OTHERS, Counts  # noqa: E402
from maggnn.errors import InputError  # noqa: E402

VALUES = st.one_of(st.none(), st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.floats(-3, 3, width=32))


def table(values: list[float | None], begin: int = 0):
    ids = pyarrow.array(range(begin, begin + len(values)), pyarrow.int64())
    return pyarrow.table({"id": ids, "y": pyarrow.array(values, pyarrow.float32())})


@settings(max_examples=100, deadline=None)
@given(
    parts=st.lists(st.lists(VALUES, max_size=8), min_size=1, max_size=6),
    top=st.integers(1, 6),
    lowest=st.booleans(),
    above=st.none() | st.sampled_from([-0.5, 0.5]),
    order=st.randoms(use_true_random=False),
)
def test_top_of_shards_is_top_of_all(parts, top, lowest, above, order):
    selection = Selection("y", top, lowest, above)
    tables, begin = [], 0
    for number, values in enumerate(parts):
        tables.append(selection.candidates(selection.kept(table(values, begin)), number))
        begin += len(values)
    order.shuffle(tables)
    best = tables[0]
    for other in tables[1:]:
        best = selection.merged([best, other])
    found = unpacked(selection.merged([best])).drop_columns([SHARD, PLACE]).to_pylist()
    everything = table([value for values in parts for value in values]).to_pylist()
    usable = [row for row in everything if row["y"] is not None and (above is None or row["y"] > above)]
    expected = sorted(usable, key=lambda row: (row["y"] if lowest else -row["y"], row["id"]))[:top]
    assert found == expected


def test_thresholds_keep_the_order_of_rows():
    rows = table([3.0, None, 1.0, 2.0, 5.0])
    assert Selection("y", above=1.0, below=5.0).kept(rows).column("id").to_pylist() == [0, 3]
    assert Selection("y", top=2).kept(rows).column("id").to_pylist() == [0, 4]
    assert Selection().kept(rows) is rows


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (Selection(top=3), "--top needs --by COLUMN, such as --by y"),
        (Selection(lowest=True), "--lowest needs --by"),
        (Selection("x", top=3), "did you mean 'y'"),
        (Selection("y"), "needs --top N, --above X or --below X"),
        (Selection("y", lowest=True, above=1.0), "--lowest needs --top"),
        (Selection("y", below=float("nan")), "--below is nan: give a number"),
    ],
)
def test_what_cannot_be_meant(selection, words):
    with pytest.raises(InputError, match=words):
        selection.check(["y", "std_y"])


def test_counts_add_up_however_many_reasons_there_are():
    total = Counts()
    for number in range(50):
        total += Counts(rows=3, predicted=1, kept=3, shards=1, reasons={f"reason {chr(65 + number)}": 1, "common": 1})
    assert total.rows == 150 == total.predicted + sum(total.reasons.values())
    assert total.reasons["common"] == 50 and total.reasons[OTHERS] > 0 and len(total.reasons) <= 21
