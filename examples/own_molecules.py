"""Your own molecules: trains a MAG-GNN on a table of SMILES and prints its error, in about ten seconds on one core.

The target is the size of a molecule's ring plus half a unit for each oxygen. The agent `cycles6`, which comes with the
package, moves the marks: it learned on bare random graphs where to put them so that cycles can be counted (PRE).
"""

import csv
import random
import tempfile
from pathlib import Path

from maggnn import Config, Engine, train
from maggnn.data.molecules.table import read_table
from maggnn.data.own_file import load_own
from maggnn.data.packing import save_packed


def write_table(path: Path, rows: int = 300) -> None:
    choice = random.Random(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "target"])
        for _ in range(rows):
            ring = choice.randint(4, 8)
            chain = "".join(choice.choices("CO", [3, 1], k=choice.randint(0, 5)))
            writer.writerow([f"C1{'C' * (ring - 1)}1{chain}", ring + 0.5 * chain.count("O")])
        writer.writerow(["C1CC", 3.0])  # an invalid SMILES, which is reported and left out


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    write_table(folder / "mine.csv")
    table = read_table(folder / "mine.csv", "smiles", ["target"])
    print(f"{table.num_rows} rows, left out: {[(error.row, error.reason) for error in table.errors]}")
    save_packed(folder / "mine.npz", table.arrays)
    config = Config().replaced(
        data={"name": str(folder / "mine.npz")},
        encoder={"conv": "gine", "num_layers": 4, "hidden": 32, "residual": True},
        predictor={"pooling": "sum"},
        agent={"num_tuples": 2, "tuple_order": 2, "num_moves": 2, "pretrained": "cycles6"},
        training={
            "paradigm": "pre",
            "predictor_steps": 200,
            "agent_steps": 0,
            "batch_size": 64,
            "learning_rate": 1e-2,
            "validate_every": 50,
        },
        runtime={"device": "cpu"},
    )
    trained = train(config, quiet=True)
    dataset, test = load_own(folder / "mine.npz"), trained.split.test
    answers = Engine(trained.model).predict(dataset.graphs, test).cpu()  # in the units of the target
    error, guess = (
        (values - dataset.y[test]).abs().mean() for values in (answers, dataset.y[trained.split.train].mean())
    )
    print(f"mean absolute error {error:.2f}, of always predicting the mean {guess:.2f}")


if __name__ == "__main__":
    main()
