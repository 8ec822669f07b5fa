"""Your own graphs: trains a MAG-GNN on NetworkX graphs and prints its accuracy, in a few seconds on one core.

The task: is there a ring of six among squares and pentagons, or two triangles instead? Every node has two neighbours,
so a GNN without marks cannot distinguish them. A mark is informative if it lies on the six nodes in question; the agent
learns to move it there from other rings. Test graphs have other numbers of squares and pentagons than training graphs.
"""

import networkx as nx
import torch

from maggnn import Config, train
from maggnn.data import Dataset, Split
from maggnn.graphs.conversions import pack_networkx
from maggnn.model.runtime import make_generator
from maggnn.training.evaluate import evaluate

COUNTS = [(squares, pentagons) for squares in range(3) for pentagons in range(3) if squares + pentagons]


def rings() -> Dataset:
    graphs = []
    for squares, pentagons in COUNTS:
        others = [4] * squares + [5] * pentagons
        for sizes in ([6], [3, 3]):
            graphs.append(nx.disjoint_union_all([nx.cycle_graph(size) for size in sizes + others]))
    packed = pack_networkx(graphs, y=[0, 1] * len(COUNTS))
    ids = torch.arange(len(graphs))
    split = Split(train=ids[ids // 2 % 2 == 0], val=ids[:0], test=ids[ids // 2 % 2 == 1])
    return Dataset("rings", packed, "classification", num_outputs=2, protocol=lambda dataset, generator: [split])


def main() -> None:
    config = Config().replaced(
        encoder={"num_layers": 4, "hidden": 32},
        agent={"num_tuples": 1, "tuple_order": 1, "num_moves": 4},
        training={
            "batch_size": 8,
            "starts_per_graph": 16,
            "predictor_steps": 300,
            "agent_steps": 200,
            "agent_batch_size": 32,
            "walkers": 16,
            "learning_rate": 3e-3,
            "reward": "error",
        },
        runtime={"device": "cpu"},
    )
    trained = train(config, quiet=True, dataset=rings())
    graphs, test = trained.dataset.graphs, trained.split.test
    for name, epsilon in (("agent", 0.0), ("random moves", 1.0)):
        result = evaluate(trained.model, graphs, test, "classification", 4, 50, epsilon, make_generator(1))
        accuracy = "  ".join(f"{value:.1f}" for value in result.last.mean(dim=0))
        print(f"{name}, accuracy after 0 to 4 moves: {accuracy}")


if __name__ == "__main__":
    main()
