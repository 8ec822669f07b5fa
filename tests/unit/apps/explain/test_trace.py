"""A trace is the model's own search, told step by step."""

import json
from itertools import pairwise

import networkx as nx
import pytest
import torch

from maggnn import InputError, MagGNN, MagRegressor
from maggnn.apps.explain.trace import step_at, trace, true_gains
from maggnn.config import AgentConfig, EncoderConfig
from maggnn.data.inputs import packed_inputs
from maggnn.graphs.conversions import pack_networkx
from maggnn.model.agent import TIE
from maggnn.model.runtime import make_generator
from maggnn.model.tuples import sample_tuples

GRAPHS = [nx.lollipop_graph(4, 3), nx.cycle_graph(6), nx.random_labeled_tree(9, seed=3)]
BRANCHED = "CCC(C)CCO"
"""No two of its atoms are alike, even without their elements: Q has no ties."""


def made(task="classification", **agent):
    """A model with random weights that moves two tuples of two marks, and graphs with targets."""
    torch.manual_seed(0)
    settings = AgentConfig(**{"num_tuples": 2, "tuple_order": 2, "num_moves": 3, **agent})
    model = MagGNN(3, encoder=EncoderConfig(num_layers=2, hidden=16), agent=settings, task=task)
    y = torch.tensor([0, 2, 1]) if task == "classification" else torch.tensor([[1.0, 20, 3], [4, 5, 6], [7, -8, 9]])
    packed = pack_networkx(GRAPHS, y=y)
    if model.targets is not None:
        model.targets.fit(packed, torch.arange(3))
    return model, packed


def own_answer(model, packed, graph, seed, tuples=None):
    with torch.no_grad():
        outputs = model.eval()(packed[torch.tensor([graph])], tuples=tuples, generator=make_generator(seed))[0]
    return outputs.double().softmax(-1) if model.task == "classification" else outputs


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("actions", ["simultaneous", "in_turn", "choose"])
@pytest.mark.parametrize("others", [{}, {"history": "lstm"}, {"start": "central"}, {"encoder": "shared"}], ids=str)
def test_the_last_answer_is_the_models_own(task, actions, others):
    model, packed = made(task, actions=actions, **others)
    for graph, seed in ((0, 0), (1, 5), (2, 7)):
        followed = trace(model, packed, graph, seed=seed)
        assert len(followed.steps) == 4
        assert followed.steps[-1].answer == pytest.approx(own_answer(model, packed, graph, seed).tolist(), rel=1e-5)


def test_from_given_tuples_as_from_the_models_own_start():
    model, packed = made()
    tuples = torch.tensor([[6, 2], [1, 1]])
    followed = trace(model, packed, 0, tuples=tuples)
    assert followed.steps[0].tuples == tuples.tolist()
    assert followed.to_json() == trace(model, packed, 0, tuples=tuples[None]).to_json()
    assert followed.steps[-1].answer == pytest.approx(own_answer(model, packed, 0, 0, tuples[None]).tolist(), rel=1e-5)


def test_a_confident_model_answers_from_its_surest_step():
    model, packed = made(keep="confident")
    surest = max((step.answer for step in trace(model, packed, 2, seed=4).steps), key=max)
    assert surest == pytest.approx(own_answer(model, packed, 2, 4).tolist(), rel=1e-5)


def test_a_fitted_model_answers_as_its_trace_ends():
    smiles = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "OCCO", "CC(C)O", "NCCO"]
    fitted = MagRegressor(steps=3).fit(smiles, [text.count("O") for text in smiles]).fitted_
    packed, _ = packed_inputs([*smiles, BRANCHED])
    answer = trace(fitted.model, packed, len(smiles), seed=11).steps[-1].answer
    assert answer == pytest.approx(fitted.predict(packed)[-1].tolist(), rel=1e-4)


@pytest.mark.parametrize("actions", ["simultaneous", "in_turn", "choose"])
@pytest.mark.parametrize("policy", ["agent", "random moves"])
def test_moves_lead_from_step_to_step(actions, policy):
    model, packed = made(actions=actions)
    steps = trace(model, packed, 0, 5, policy, seed=3).steps
    assert steps[0].moved == [] and len(steps) == 6
    for number, (before, after) in enumerate(pairwise(steps)):
        changed = [list(row) for row in before.tuples]
        for place, slot, node in after.moved:
            changed[place][slot] = node
            if policy == "agent":
                row = [gain for rows in before.q_table for gain in rows[place]]
                assert before.q_table[node][place][slot] >= max(row) - TIE
        assert changed == after.tuples
        movers = [place for place, _, _ in after.moved]
        assert movers == {"simultaneous": [0, 1], "in_turn": [number % 2]}.get(actions, movers) and movers


def test_both_policies_begin_at_the_same_marks_and_repeat():
    model, packed = made()
    agent, random = (trace(model, packed, 2, 4, policy, seed=9) for policy in ("agent", "random moves"))
    assert agent.steps[0] == random.steps[0] and (agent.policy, random.policy) == ("agent", "random moves")
    assert random == trace(model, packed, 2, 4, "random moves", seed=9)
    assert random != trace(model, packed, 2, 4, "random moves", seed=10)


def test_it_is_plain_values():
    model, packed = made("regression")
    followed = trace(model, packed, 1)
    told = json.loads(json.dumps(followed.to_json(), allow_nan=False))
    assert told["policy"] == "agent" and len(told["steps"]) == 4
    step = told["steps"][2]
    assert len(step["q_table"]) == 6 and len(step["q_table"][0]) == 2 and len(step["q_table"][0][0]) == 2
    assert step["tuples"] == followed.steps[2].tuples and len(step["answer"]) == 3


def test_a_step_at_given_marks():
    model, packed = made()
    steps = trace(model, packed, 2, seed=1).steps
    assert step_at(model, packed, 2, steps[0].tuples) == steps[0]
    later = step_at(model, packed, 2, steps[2].tuples)
    assert (later.answer, later.score, later.moved) == (steps[2].answer, steps[2].score, [])


def test_scores_are_minus_the_loss_of_the_answer():
    model, packed = made()
    step = trace(model, packed, 1, seed=1).steps[-1]
    assert step.score == pytest.approx(torch.tensor(step.answer[2]).log().item(), rel=1e-4)
    wrong = trace(model, packed, 1, seed=1, reward="error").steps[-1]
    assert wrong.score == pytest.approx(step.answer[2] - 1, rel=1e-4)
    model, packed = made("regression")
    step = trace(model, packed, 1, seed=1).steps[-1]
    apart = (torch.tensor(step.answer) - packed.y[1]) / model.targets.std
    assert step.score == pytest.approx(-apart.abs().mean().item(), rel=1e-4)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_true_gains_are_differences_of_scores(task):
    model, packed = made(task)
    tuples = [[0, 5], [2, 2]]
    now = step_at(model, packed, 0, tuples).score
    gains = true_gains(model, packed, 0, tuples)
    assert (len(gains), len(gains[0]), len(gains[0][0])) == (7, 2, 2)
    for node, number, slot in ((0, 0, 0), (3, 1, 0), (6, 0, 1), (6, 1, 1)):
        moved = [list(row) for row in tuples]
        moved[number][slot] = node
        assert gains[node][number][slot] == pytest.approx(step_at(model, packed, 0, moved).score - now, abs=1e-5)


def test_without_targets_there_is_no_score():
    model, _ = made()
    packed = pack_networkx(GRAPHS)
    assert all(step.score is None for step in trace(model, packed, 0).steps)
    assert true_gains(model, packed, 0, [[0, 1], [0, 1]]) is None


def test_a_missing_target_is_no_score():
    model, packed = made("regression")
    packed.y[0, 1] = float("nan")
    assert trace(model, packed, 0).steps[0].score is None


def test_a_plain_gnn_has_one_step():
    model, packed = made(tuple_order=0, num_moves=0)
    for policy in ("agent", "random moves"):
        (step,) = trace(model, packed, 0, 3, policy).steps
        assert step.q_table is None and step.tuples == [[], []]
        assert step.answer == pytest.approx(own_answer(model, packed, 0, 0).tolist(), rel=1e-5)


def test_one_graph_of_many_is_as_if_alone():
    model, packed = made(start="central")
    alone = packed.select(torch.tensor([2]))
    assert trace(model, packed, 2) == trace(model, alone, 0)


@pytest.mark.parametrize(
    ("tuples", "words"),
    [([[0, 1]], "shape"), ([[0, 1], [2, 9]], "outside"), ([[0, 1], [2]], "one length"), ([["a", "b"]] * 2, "node ids")],
)
def test_marks_that_cannot_be(tuples, words):
    model, packed = made()
    with pytest.raises(InputError, match=words):
        step_at(model, packed, 0, tuples)


def test_graphs_and_models_that_cannot_be():
    model, packed = made()
    with pytest.raises(InputError, match="graphs 0 to 2"):
        trace(model, packed, 3)
    of_nodes = MagGNN(2, encoder=EncoderConfig(num_layers=1, hidden=8), level="node")
    with pytest.raises(InputError, match="predicts for nodes"):
        trace(of_nodes, packed, 0)


def test_random_starts_are_those_of_the_seed():
    model, packed = made()
    drawn = sample_tuples(packed[torch.tensor([0])], 2, 2, make_generator(6))
    assert trace(model, packed, 0, seed=6).steps[0].tuples == drawn[0].tolist()
