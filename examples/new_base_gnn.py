"""Another base GNN: any PyG convolution as the encoder, here GATConv and GCNConv, compared on one small data set.

The Shrikhande graph and the 4 x 4 rook's graph are strongly regular with equal parameters: 3-WL cannot distinguish
them, a pair of marks can. `EncoderConfig(conv=...)` names the convolution; nothing else changes.
"""

from maggnn import Config, EncoderConfig, train
from maggnn.model.runtime import make_generator
from maggnn.training.evaluate import evaluate


def accuracy(encoder: EncoderConfig) -> list[float]:
    config = Config().replaced(
        data={"name": "shrikhande_rook"},
        encoder=vars(encoder),
        agent={"num_tuples": 1, "tuple_order": 2, "num_moves": 2},
        training={
            "batch_size": 2,
            "starts_per_graph": 32,
            "predictor_steps": 250,
            "agent_steps": 100,
            "agent_batch_size": 32,
            "learning_rate": 3e-3,
            "reward": "error",
        },
        runtime={"device": "cpu"},
    )
    trained = train(config, quiet=True)
    graphs, test = trained.dataset.graphs, trained.split.test
    result = evaluate(trained.model, graphs, test, "classification", 2, 50, 0.0, make_generator(1))
    return result.last.mean(dim=0).tolist()


def main() -> None:
    for conv in ("GATConv", "GCNConv"):
        scores = accuracy(EncoderConfig(conv=conv, num_layers=3, hidden=32))
        print(f"{conv}, accuracy after 0, 1, 2 moves: {'  '.join(f'{score:.1f}' for score in scores)}")


if __name__ == "__main__":
    main()
