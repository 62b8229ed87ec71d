#!/usr/bin/env python3
"""Sampled frames of a video: capjudge (built-in decoder, ffmpeg) against PyAV and decord, in one interleaved run.

    pip install av decord numpy        and ffmpeg with libx264 on the PATH
    cargo build --release
    python3 benches/peers/video.py --binary target/release/capjudge [--rounds 3] [--clips 720p 1080p long] [--codec h264]

The clips are made here by ffmpeg. Every peer does the same work: the n frames of `linspace(0, N-1, n)`, in RGB. PyAV
seeks to the key frame before each frame and decodes on from there, once as it comes (slice threads) and once with frame
threads. CPU seconds and wall clock are of the whole process for capjudge (with its worker), and without the time to
start Python and import packages for the others. The tables give medians, and capjudge's ratio to PyAV as it comes.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

CLIPS = {
    "720p": ("1280x720", 10, 30),
    "1080p": ("1920x1080", 10, 30),
    "long": ("1280x720", 300, 30),
}
ENCODERS = {
    "h264": ["-c:v", "libx264", "-preset", "medium", "-crf", "23"],
    "hevc": ["-c:v", "libx265", "-preset", "medium", "-crf", "26", "-x265-params", "log-level=error"],
    "vp9": ["-c:v", "libvpx-vp9", "-b:v", "2M", "-deadline", "realtime", "-cpu-used", "5"],
    "av1": ["-c:v", "libsvtav1", "-preset", "10", "-crf", "35"],
}


def make(folder, name, codec):
    """A clip with moving content, noise and a cut every few seconds."""
    size, seconds, fps = CLIPS[name]
    path = os.path.join(folder, f"{name}-{codec}.{'webm' if codec == 'vp9' else 'mp4'}")
    if not os.path.exists(path):
        width, height = map(int, size.split("x"))
        source = (
            f"testsrc2=s={size}:r={fps}:d={seconds},noise=alls=4:allf=t,"
            f"rotate=0.05*sin(t):fillcolor=gray,hue=h=20*floor(t/4)"
        )
        command = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-pix_fmt", "yuv420p"]
        subprocess.run(command + ENCODERS[codec] + [path + ".part." + path.rsplit(".", 1)[1]], check=True)
        os.rename(path + ".part." + path.rsplit(".", 1)[1], path)
    return path


def in_python(body, path, n):
    """Runs a peer in a Python of its own; it times itself."""
    code = f"import json, sys, time, numpy as np\n{body}\n"
    code += (
        f"c, w = time.process_time(), time.perf_counter()\nframes = take({path!r}, {n})\n"
        "print(json.dumps([time.process_time() - c, time.perf_counter() - w, len(frames)]))"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    cpu, wall, count = json.loads(out.strip().splitlines()[-1])
    assert count == n
    return cpu, wall


PYAV = """
import av
def take(path, n):
    container = av.open(path)
    stream = container.streams.video[0]
    {threads}
    pts = sorted(p.pts for p in container.demux(stream) if p.size)
    wanted = [pts[i] for i in np.linspace(0, len(pts) - 1, n, dtype=int)]
    frames, decoder, last, key_after = {{}}, None, None, None
    keys = []
    container.seek(0)
    for packet in container.demux(stream):
        if packet.size and packet.is_keyframe:
            keys.append(packet.pts)
    keys.sort()
    import bisect
    for target in wanted:
        if target in frames:
            continue
        key = keys[max(bisect.bisect_right(keys, target) - 1, 0)]
        if decoder is None or last is None or key > last:
            container.seek(target, stream=stream, backward=True)
            decoder = container.decode(stream)
        for frame in decoder:
            last = frame.pts
            if frame.pts >= target:
                frames[target] = frame.to_ndarray(format="rgb24")
                break
    return [frames[t] for t in wanted]
"""
DECORD = """
import decord
def take(path, n):
    reader = decord.VideoReader(path, num_threads={threads})
    return reader.get_batch(np.linspace(0, len(reader) - 1, n, dtype=int)).asnumpy()
"""


def capjudge(binary, decoder, path, n):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [binary, "frames", path, "--sample", "uniform", "--frames", str(n), "--json"]
    out = subprocess.run(command + ["--no-frame-cache", "--decoder", decoder], check=True, capture_output=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(json.loads(out.stdout)["frames"]) == n
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clips", nargs="+", default=list(CLIPS), choices=list(CLIPS))
    parser.add_argument("--counts", nargs="+", type=int, default=[8, 16, 32])
    parser.add_argument("--codec", default="h264", choices=list(ENCODERS))
    parser.add_argument("--folder", help="keeps the clips there for the next time")
    args = parser.parse_args()
    folder = args.folder or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    peers = {
        "built-in": lambda path, n: capjudge(args.binary, "builtin", path, n),
        "ffmpeg": lambda path, n: capjudge(args.binary, "ffmpeg", path, n),
        "PyAV": lambda path, n: in_python(PYAV.format(threads=""), path, n),
        "PyAV frame threads": lambda path, n: in_python(PYAV.format(threads="stream.thread_type = 'AUTO'"), path, n),
        "decord": lambda path, n: in_python(DECORD.format(threads=0), path, n),
    }
    for clip in args.clips:
        path = make(folder, clip, args.codec)
        for n in args.counts:
            taken = {name: [] for name in peers}
            for _ in range(args.rounds):
                for name, peer in peers.items():
                    try:
                        taken[name].append(peer(path, n))
                    except (subprocess.CalledProcessError, AssertionError) as error:
                        print(f"{name} failed: {str(error)[:200]}", file=sys.stderr)
            base = [statistics.median(t[i] for t in taken["PyAV"]) for i in (0, 1)]
            for name, times in taken.items():
                if not times:
                    continue
                cpu, wall = (statistics.median(t[i] for t in times) for i in (0, 1))
                print(
                    f"{clip:6} {args.codec} n={n:<3} {name:20} cpu {cpu:7.2f} s ({cpu / base[0]:5.2f} x PyAV)"
                    f"   wall {wall:7.2f} s ({wall / base[1]:5.2f} x PyAV)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
