"""The linear maps of message passing on marked copies: one plain reference, one fast path for each kind of device.

| map | forward | backward |
|---|---|---|
| `aggregate` | scale h_v + sum over edges (u, v) of h_u, or of relu(h_u + e_uv) | the same over reversed edges |
| `sum_nodes` | sum of each graph's rows | the graph's gradient at each of its nodes |
| `spread_to_nodes` | each graph's row at each of its nodes | sum of each graph's rows |
| `norm_relu` | BatchNorm over the rows that are nodes, then relu | |

`messages` chooses by device: `cpu` (sparse products) or `gpu` (Triton). Both use `pooling` and are tested against
`reference`.

Shapes: N nodes, E edges, B graphs; features are [N, m, d], edge embeddings [E, d], shared by the m copies.
"""
