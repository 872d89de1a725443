"""bubblewatch: why are my GPUs idle, and what exactly do I change?"""

__version__ = "0.1.0"
