"""What marks can distinguish at all: of pairs, of BREC, and what is left out for it."""

import torch

from maggnn.data.synthetic.expressivity import shrikhande_rook
from maggnn_paper.brec import reproduce
from maggnn_paper.brec.ceiling import distinguished_by, out_of_reach
from maggnn_paper.brec.pairs import pair_ids
from maggnn_paper.tables import ceilings


def test_pairs_by_marks():
    graphs, pairs = shrikhande_rook().select(torch.tensor([0, 1, 0, 0])), torch.arange(2)  # one graph twice
    found = [distinguished_by(graphs, pairs, order).tolist() for order in range(3)]
    assert found == [[False, False], [False, False], [True, False]]


def test_brec_leaves_out_what_no_marks_tell(packed_data):
    pairs = pair_ids(["regular-distance"])["regular-distance"]
    hopeless = out_of_reach(tuple(pairs.tolist()), 2)
    assert len(hopeless) == 2
    marked = reproduce.make_jobs("rpc", "mag-gnn", ["regular-distance"], runs=1)
    assert sorted(pair for job in marked for pair in job.pairs) == sorted(set(pairs.tolist()) - hopeless)
    for method in ("gin", "ngnn"):  # a control and a baseline are tried on all
        jobs = reproduce.make_jobs("rpc", method, ["regular-distance"], runs=1)
        assert sorted(pair for job in jobs for pair in job.pairs) == sorted(pairs.tolist())
    none = {"t_square": [0.0] * 20, "control": [0.0] * 20}
    results = {job: {"found": {"mag-gnn": none}} for job in marked}
    assert "of 20 pairs, 2 of which no marks of this k distinguish" in reproduce._note("rpc", "mag-gnn", results)


def test_the_table(packed_data, tmp_path, monkeypatch):
    monkeypatch.setattr(ceilings, "MOST_MARKS", 1)
    monkeypatch.setattr(ceilings, "MOLECULES", 200)
    rows = {(row.dataset, row.k): row for row in ceilings.reproduce(tmp_path)}
    assert [rows["brec_all", k].mean for k in (0, 1)] == [0, 251]
    assert [rows[f"brec_{name}", 1].mean for name in ("basic", "regular", "extension", "cfi")] == [60, 50, 100, 41]
    assert "molecules a minute" in (rows["zinc_200", 1].note or "")
