"""The methods that the paper compares with, one a file, each an encoder in place of MAG-GNN's own.

Most of them are one idea over one object, the marked copies of a graph for all v in V^k (Eq. 3, `copies`), with
different ways to pool across the copies.
"""

from __future__ import annotations

import difflib

from maggnn.baselines.cin import CIN
from maggnn.baselines.dropgnn import DropGNN
from maggnn.baselines.gine import GINE
from maggnn.baselines.gnn_123 import GNN123
from maggnn.baselines.gnn_ak import GNNAKPlus
from maggnn.baselines.gsn import GSN
from maggnn.baselines.i2gnn import I2GNN
from maggnn.baselines.id_gnn import IDGNN
from maggnn.baselines.k_osan import KOSAN
from maggnn.baselines.kp_gnn import KPGNN
from maggnn.baselines.ngnn import NGNN
from maggnn.baselines.pf_gnn import PFGNN
from maggnn.baselines.pna import PNA
from maggnn.baselines.ppgn import PPGN
from maggnn.baselines.rival import Rival
from maggnn.baselines.rni import RNI
from maggnn.baselines.sswl_plus import SSWLPlus
from maggnn.baselines.sun import SUN
from maggnn.config import EncoderConfig, RivalConfig
from maggnn.errors import InputError
from maggnn.features import FeatureSpec

RIVALS: dict[str, type[Rival]] = {
    "gine": GINE,
    "ngnn": NGNN,
    "id-gnn": IDGNN,
    "gnn-ak+": GNNAKPlus,
    "sun": SUN,
    "kp-gnn": KPGNN,
    "sswl+": SSWLPlus,
    "pna": PNA,
    "rni": RNI,
    "dropgnn": DropGNN,
    "pf-gnn": PFGNN,
    "k-osan": KOSAN,
    "i2gnn": I2GNN,
    "ppgn": PPGN,
    "1-2-3-gnn": GNN123,
    "gsn": GSN,
    "cin": CIN,
}
"""By the names that the ledger knows."""


def make_encoder(
    rival: RivalConfig, encoder: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
) -> Rival | None:
    """The rival that a config names, with fresh weights; None: it names none."""
    if not rival.name:
        return None
    return rival_type(rival.name)(rival, encoder, node_features, edge_features)


def rival_type(name: str) -> type[Rival]:
    """The class of a rival's name."""
    if name not in RIVALS:
        nearest = difflib.get_close_matches(name, RIVALS, n=1, cutoff=0.0)[0]
        raise InputError(f"no rival {name!r}: did you mean {nearest}? There are {', '.join(RIVALS)}")
    return RIVALS[name]
