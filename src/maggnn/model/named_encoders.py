"""Encoders that a config can name instead of g_p: the methods that the paper compares with.

They come with the distribution `maggnn-paper`, one file each, and are imported when a config names one. A model file
of such a method is read like any other if that distribution is installed.
"""

from __future__ import annotations

from importlib import import_module

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.errors import InputError, did_you_mean
from maggnn.model.encoder import AnyEncoder
from maggnn.model.features import FeatureSpec

PACKAGE = "maggnn_paper.baselines"

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
"""Maps a name to a module and a class of `PACKAGE`."""


def baseline_type(name: str) -> type[AnyEncoder]:
    """Import and return the class of a baseline."""
    if name not in BASELINES:
        raise InputError(f"no baseline {name!r}{did_you_mean(name, BASELINES)}")
    file, _, kind = BASELINES[name].partition(":")
    try:
        return getattr(import_module(f"{PACKAGE}.{file}"), kind)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != PACKAGE.partition(".")[0]:
            raise
        raise InputError(
            f"{name} is a baseline of the paper's tables, not installed: pip install maggnn-paper"
        ) from None


def make_encoder(
    baseline: BaselineConfig, encoder: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
) -> AnyEncoder:
    """Make the baseline that a config names, with random weights.

    Args:
        baseline: which baseline, and its settings.
        encoder: depth, width and norm.
        node_features: the features in `x`.
        edge_features: the features in `edge_attr`.

    Returns:
        The encoder.
    """
    return baseline_type(baseline.name)(baseline, encoder, node_features, edge_features)  # pyright: ignore[reportCallIssue]
