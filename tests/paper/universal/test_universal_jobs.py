"""Variants by name, as jobs that run side by side."""

import json
from dataclasses import replace

import pytest

from maggnn.errors import InputError
from maggnn.model.pretrained import pretrained_agent
from maggnn_paper.tables import families, pretrained_agents
from maggnn_paper.universal import jobs, training
from maggnn_paper.universal.curriculum import CurriculumSettings
from maggnn_paper.universal.exclusion import hashes_of
from maggnn_paper.universal.families import generated
from maggnn_paper.universal.jobs import AGENT, VARIANTS, UniversalJob, in_words, run_universal


def test_every_variant_can_be_built():
    names = {UniversalJob(variant).name for variant in VARIANTS}
    assert len(names) == len(VARIANTS)
    for variant in VARIANTS:
        settings = UniversalJob(variant, seconds=7.0, seed=3).settings
        assert (settings.seconds, settings.seed) == (7.0, 3)
        training.fresh_network(replace(settings, encoder=replace(settings.encoder, hidden=4)))
    with pytest.raises(InputError, match="no variant 'bse' of the universal agent: did you mean 'base'"):
        _ = UniversalJob("bse").settings


@pytest.fixture
def tiny(monkeypatch):
    """Trainings of five steps that are tested on one family; published sets need not be here."""
    ours = hashes_of([graph for graphs in generated().values() for graph in graphs])
    monkeypatch.setattr(training, "forbidden_hashes", lambda: ours)
    monkeypatch.setattr(jobs, "FAMILIES", ("cfi_wheel",))
    for name in ("base", "one-core-colours"):
        small = replace(
            VARIANTS[name],
            encoder=replace(VARIANTS[name].encoder, num_layers=2, hidden=8, norm="batch"),
            steps=5,
            batches=2,
            curriculum=CurriculumSettings(most_nodes=16, batch_nodes=60, graphs=12),
        )
        monkeypatch.setitem(VARIANTS, name, small)


def test_a_job_leaves_an_agent_and_its_figures(tmp_path, tiny):
    job = UniversalJob("base", seconds=60.0, workers=0, device="cpu")
    result = run_universal(job, tmp_path)
    assert json.loads((tmp_path / job.name / "families.json").read_text())["families"] == result["families"]
    assert pretrained_agent(str(tmp_path / job.name / AGENT)).tuple_order == 2
    assert "cfi_wheel" in in_words(job, json.loads(json.dumps(result)))


def test_an_agent_of_the_curriculum_is_trained_judged_and_saved(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(families, "FAMILIES", ("cfi_wheel",))
    target = tmp_path / "agents"
    target.mkdir()
    rows = pretrained_agents.reproduce(tmp_path, agents=target, datasets=["colours"])
    assert {row.dataset for row in rows} == {"colours>cfi_wheel"} and {row.marking for row in rows} == {"colours"}
    agent = pretrained_agent(str(target / "colours.safetensors"))
    assert agent.shape.encoder.marking == "colours" and agent.moves_tuples_alone
    assert agent.ledger in [json.loads(row.to_json()) for row in rows]
