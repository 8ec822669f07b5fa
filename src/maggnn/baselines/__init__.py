"""The methods that the paper compares with, by the names that the ledger knows; one file each.

Each is another encoder in place of g_p (`rival`); most read all marked copies of a graph (`copies`) and are built of a
few common `parts`. This file is only the table of names: a method is imported when a config names it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from maggnn.config import EncoderConfig, RivalConfig
from maggnn.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from maggnn.baselines.rival import Rival
    from maggnn.model.features import FeatureSpec

BASELINES = {
    "gine": "gine:GINE",
    "ngnn": "ngnn:NGNN",
    "id-gnn": "id_gnn:IDGNN",
    "gnn-ak+": "gnn_ak:GNNAKPlus",
    "sun": "sun:SUN",
    "kp-gnn": "kp_gnn:KPGNN",
    "sswl+": "sswl_plus:SSWLPlus",
    "pna": "pna:PNA",
    "rni": "rni:RNI",
    "dropgnn": "dropgnn:DropGNN",
    "pf-gnn": "pf_gnn:PFGNN",
    "k-osan": "k_osan:KOSAN",
    "i2gnn": "i2gnn:I2GNN",
    "ppgn": "ppgn:PPGN",
    "1-2-3-gnn": "gnn_123:GNN123",
    "gsn": "gsn:GSN",
    "cin": "cin:CIN",
}
"""Name -> file and class."""


def baseline_type(name: str) -> type[Rival]:
    """The class of a baseline's name, imported now."""
    if name not in BASELINES:
        raise InputError(f"no baseline {name!r}{did_you_mean(name, BASELINES)}")
    file, _, kind = BASELINES[name].partition(":")
    return getattr(import_module(f"{__name__}.{file}"), kind)


def make_encoder(
    rival: RivalConfig, encoder: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
) -> Rival | None:
    """The baseline that a config names, with fresh weights; None where it names none."""
    return baseline_type(rival.name)(rival, encoder, node_features, edge_features) if rival.name else None
