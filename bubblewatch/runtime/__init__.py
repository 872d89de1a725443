"""The tick, the threads, the sampler process, and the hub that publishes one immutable snapshot."""
