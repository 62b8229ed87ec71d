#!/usr/bin/env python3
"""Damaged videos: what capjudge says about them, beside what ffmpeg says.

    ffmpeg with libx264, libx265, libvpx-vp9 and libsvtav1 on the PATH
    cargo build --release
    python3 benches/damage.py --binary target/release/capjudge [--files 60] [--codecs h264 hevc vp9 av1]

For each codec, clips are made by ffmpeg, and copies of them have 1 to 20 bytes overwritten by others, at random places
of the coded data (fixed seeds). capjudge is asked for every frame. Counted are: reported by capjudge (exit code not 0,
or faults), reported by ffmpeg (a word at `-v error`, or an exit code), files whose pictures are not those of the sound clip
by ffmpeg's decoding, and silent ones: a wrong frame from capjudge without a word. Main process: crashes (ended by a
signal, or exit code 101) and hangs (longer than the limit and a moment).
"""

import argparse
import collections
import json
import os
import random
import subprocess
import tempfile
import time

CLIPS = {
    "h264": [
        ("cabac.mp4", "testsrc2=s=320x240:r=25:d=3", "-c:v libx264 -preset medium -g 25"),
        ("cavlc.mp4", "mandelbrot=s=256x192:r=25", "-t 3 -c:v libx264 -profile:v baseline -g 30"),
        ("slices.mkv", "testsrc2=s=352x288:r=25:d=3,noise=alls=8:allf=t", "-c:v libx264 -x264-params slices=4 -crf 30"),
        ("long-gop.mp4", "testsrc2=s=320x180:r=30:d=4,noise=alls=6:allf=t", "-c:v libx264 -preset slow -crf 28"),
    ],
    "hevc": [
        ("main.mp4", "testsrc2=s=320x240:r=25:d=3", "-c:v libx265 -x265-params keyint=25:log-level=error"),
        ("noise.mp4", "testsrc2=s=352x288:r=25:d=3,noise=alls=8:allf=t", "-c:v libx265 -crf 32 -x265-params log-level=error"),
        ("ten.mkv", "mandelbrot=s=256x192:r=25", "-t 3 -pix_fmt yuv420p10le -c:v libx265 -x265-params log-level=error"),
    ],
    "vp9": [
        ("good.webm", "testsrc2=s=320x240:r=25:d=3", "-c:v libvpx-vp9 -b:v 300k -deadline realtime -cpu-used 4"),
        ("noise.webm", "testsrc2=s=352x288:r=25:d=3,noise=alls=8:allf=t", "-c:v libvpx-vp9 -b:v 500k -deadline realtime -cpu-used 6"),
        ("fractal.mp4", "mandelbrot=s=256x192:r=25", "-t 3 -c:v libvpx-vp9 -b:v 300k -deadline realtime -cpu-used 5"),
    ],
    "av1": [
        ("svt.mp4", "testsrc2=s=320x240:r=25:d=3", "-c:v libsvtav1 -preset 10 -crf 40"),
        ("noise.mkv", "testsrc2=s=352x288:r=25:d=3,noise=alls=8:allf=t", "-c:v libsvtav1 -preset 11 -crf 45"),
        ("fractal.webm", "mandelbrot=s=256x192:r=25", "-t 3 -c:v libsvtav1 -preset 10 -crf 40"),
    ],
}


def make(folder, codec):
    paths = []
    for name, source, options in CLIPS[codec]:
        path = os.path.join(folder, f"{codec}-{name}")
        pixels = [] if "-pix_fmt" in options else ["-pix_fmt", "yuv420p"]
        command = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, *pixels, *options.split(), path]
        subprocess.run(command, check=True, env={**os.environ, "SVT_LOG": "1"}, stderr=subprocess.DEVNULL)
        paths.append(path)
    return paths


def coded_data(path):
    """Offsets and sizes of the video's packets, by ffprobe."""
    command = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pos,size", "-of", "json", path]
    packets = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["packets"]
    return [(int(p["pos"]), int(p["size"])) for p in packets if "pos" in p]


def corrupt(path, out, seed):
    dice = random.Random(f"{os.path.basename(path)} {seed}")
    data = bytearray(open(path, "rb").read())
    packets = coded_data(path)
    at, size = dice.choices(packets, [size for _, size in packets])[0]
    # Behind the block's own header (Matroska gives the block's place, not its payload's), inside the packet.
    start = at + dice.randrange(8, max(size - 1, 9))
    for place in range(start, min(start + dice.randint(1, 20), at + size)):
        data[place] = (data[place] + dice.randint(1, 255)) % 256
    open(out, "wb").write(data)


def capjudge(binary, path, seconds):
    command = [binary, "frames", path, "--sample", "uniform", "--frames", "200", "--json", "--no-frame-cache"]
    command += ["--decoder", "builtin", "--max-seconds", str(seconds)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, timeout=seconds + 30)
    hang = time.perf_counter() - start > seconds + 5
    crash = done.returncode < 0 or done.returncode == 101
    report = json.loads(done.stdout) if done.stdout.strip() else None
    return done, report, crash, hang


def ffmpeg_says(path):
    command = ["ffmpeg", "-v", "error", "-i", path, "-map", "0:v:0", "-f", "framemd5", "-"]
    done = subprocess.run(command, capture_output=True, timeout=120)
    frames = [line.split(b",")[-1].strip() for line in done.stdout.splitlines() if not line.startswith(b"#")]
    return bool(done.stderr.strip()) or done.returncode != 0, frames


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--codecs", nargs="+", default=list(CLIPS), choices=list(CLIPS))
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    folder = tempfile.mkdtemp()
    for codec in args.codecs:
        clips = make(folder, codec)
        sound = {}
        for clip in clips:
            done, report, _, _ = capjudge(args.binary, clip, args.seconds)
            assert done.returncode == 0 and not report["faults"], (clip, done.stderr)
            sound[clip] = (report, ffmpeg_says(clip)[1])
        count = collections.Counter()
        for number in range(args.files):
            clip = clips[number % len(clips)]
            bad = os.path.join(folder, "bad-" + os.path.basename(clip))
            corrupt(clip, bad, number)
            done, report, crash, hang = capjudge(args.binary, bad, args.seconds)
            by_ffmpeg, frames = ffmpeg_says(bad)
            reported = done.returncode != 0
            hashes = lambda report: [(f["index"], f["sha256"]) for f in report["frames"]]
            wrong = report is not None and hashes(report) != hashes(sound[clip][0])
            count["reported by capjudge"] += reported
            count["reported by ffmpeg"] += by_ffmpeg
            count["pictures changed (ffmpeg)"] += frames != sound[clip][1]
            count["silent and wrong"] += wrong and not reported
            count["silent and wrong where ffmpeg reports"] += wrong and not reported and by_ffmpeg
            count["main process crashed"] += crash
            count["hung"] += hang
            count["decoder process crashed"] += b"crashed" in done.stderr
            if args.verbose:
                words = done.stderr.decode(errors="replace").strip().splitlines()
                print(number, os.path.basename(clip), "reported" if reported else "SILENT" if wrong else "equal",
                      "ffmpeg:" + str(by_ffmpeg), words[:1], flush=True)
        print(f"{codec}: {args.files} files; " + ", ".join(f"{name} {value}" for name, value in count.items()), flush=True)


if __name__ == "__main__":
    main()
