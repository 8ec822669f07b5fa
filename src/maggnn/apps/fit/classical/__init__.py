"""Members of a blend that are no networks: trees and Gaussian processes on descriptors and fingerprints."""
