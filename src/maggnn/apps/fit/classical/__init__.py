"""The classical parts of a blend: trees and Gaussian processes on descriptors and fingerprints."""
