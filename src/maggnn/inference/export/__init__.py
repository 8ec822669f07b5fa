"""The whole search as one program that runs without this package: torch.export, AOTInductor or ONNX."""
