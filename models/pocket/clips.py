"""Clips of the world as files: H.264 in MP4, as people have them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from world import Clip

SIDE, RATE = 192, 12


def pictures(clip: Clip) -> np.ndarray:
    count = round(clip.seconds * RATE)
    return np.stack([clip.frame(index / (count - 1), SIDE) for index in range(count)])


def write(path: Path, frames: np.ndarray, rate: float = RATE) -> Path:
    """Encodes frames with ffmpeg."""
    count, height, width, _ = frames.shape
    command = [
        "ffmpeg", "-loglevel", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(rate),
        "-i", "-", "-an", "-c:v", "libx264", "-preset", "slow", "-crf", "24", "-pix_fmt", "yuv420p", "-threads", "1",
        "-map_metadata", "-1", "-fflags", "+bitexact", "-flags:v", "+bitexact", "-movflags", "+faststart", str(path),
    ]
    subprocess.run(command, input=frames.tobytes(), check=True)
    return path
