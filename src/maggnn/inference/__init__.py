"""Inference: a model with folded weights (`frozen`), many graphs within a memory budget (`engine`), and `export/`."""
