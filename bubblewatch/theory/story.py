"""The load that the story was about, as stated inputs: Kimi K2.6 on eight 600 W PCIe cards.

Its rates (24.7 tok/s for one request, 95.6 for eight in one slot, 65 and over 1,500 with tensor parallelism) are not
written here: they come out of the ring, and a test holds them to the reported ones. The inputs are plausible, not
measured: 548 GB over eight stages is 68 GB a card, of which a token of a mixture with 8 of 384 experts reads about
2.5 GB of shared and 1.5 GB of expert weights, at 1,792 GB/s.
"""

from __future__ import annotations

from dataclasses import dataclass

from bubblewatch.theory.ring import Ring, TensorParallel, allreduce_s, even_ring


@dataclass(frozen=True, slots=True)
class StageCost:
    """What a micro-batch costs one stage, in seconds. The expert parts grow with the experts that the batch touches.

    `shared_s` and `expert_s` are GPU time of the shared part and of the experts of one token; `launch_s` and
    `launch_expert_s` the CPU time of launching them one by one, without CUDA graphs.
    """

    shared_s: float = 1.60e-3
    expert_s: float = 0.56e-3
    launch_s: float = 3.02e-3
    launch_expert_s: float = 0.84e-3
    experts: int = 384
    experts_per_token: int = 8

    def expert_growth(self, batch: float) -> float:
        """Experts that a batch touches over those of one token, if tokens choose independently."""
        share = self.experts_per_token / self.experts
        untouched: float = (1 - share) ** batch
        return (1 - untouched) / share

    def kernel_s(self, batch: float) -> float:
        """GPU time of one stage forward of `batch` requests."""
        return self.shared_s + self.expert_s * self.expert_growth(batch)

    def eager_launch_s(self, batch: float) -> float:
        """CPU time to launch that forward without graphs."""
        return self.launch_s + self.launch_expert_s * self.expert_growth(batch)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the server's own costs, in seconds; the all-reduce moves two bytes for each hidden unit."""

    stages: int = 8
    hop_s: float = 0.1e-3
    host_s: float = 1.1e-3
    layers: int = 61
    hidden: int = 7168
    allreduce_latency_s: float = 108e-6
    bus_bytes_per_s: float = 40e9


def pipeline(
    batch: float,
    *,
    filled: int = 1,
    depth: int = 0,
    graphs: bool,
    cost: StageCost | None = None,
    machine: Machine | None = None,
) -> Ring:
    """The ring with `filled` slots of `batch` requests each."""
    cost, machine = cost or StageCost(), machine or Machine()
    return even_ring(
        machine.stages,
        cost.kernel_s(batch),
        0.0 if graphs else cost.eager_launch_s(batch),
        hop_s=machine.hop_s,
        host_s=machine.host_s,
        depth=depth,
        filled=filled,
    )


def tensor_parallel(batch: float, cost: StageCost | None = None, machine: Machine | None = None) -> TensorParallel:
    """The same model with graphs, every layer split over all cards: two all-reduces a layer."""
    cost, machine = cost or StageCost(), machine or Machine()
    message_bytes = 2 * batch * machine.hidden
    return TensorParallel(
        model_s=machine.stages * cost.kernel_s(batch),
        gpus=machine.stages,
        allreduces=2 * machine.layers,
        allreduce_s=allreduce_s(machine.allreduce_latency_s, message_bytes, machine.stages, machine.bus_bytes_per_s),
    )
