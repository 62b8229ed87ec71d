#!/usr/bin/env python3
"""Frames of capjudge against PyAV, for each clip and both decoders: the right frames, at the right times, byte for byte.

    pip install av numpy        and ffmpeg with libx264, libx265, libvpx-vp9, libaom-av1 and libsvtav1 on the PATH
    python3 tests/reference/video.py --binary target/debug/capjudge [--decoders builtin ffmpeg] [--most 400] [CLIP...]

A matrix of clips is made by ffmpeg; more can be named. PyAV (FFmpeg's libraries, not its program) decodes every frame to
planes; numpy converts them to RGB by the formula of src/media/colour.rs, written here a second time. Printed for each clip and
decoder: frames equal / frames asked, and whether number and times of the frames are PyAV's. Exit code 1 if any differ.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import av
import numpy as np

SRC = "testsrc2=s={size}:r={rate}:d={seconds}"
X265 = "-c:v libx265 -x265-params log-level=error"
MATRIX = [
    # name, size, rate, seconds, options
    ("h264.mp4", "320x240", 25, 3, "-c:v libx264"),
    ("h264-baseline.mp4", "176x144", 25, 2, "-c:v libx264 -profile:v baseline"),
    ("h264-slices.mkv", "320x240", 25, 2, "-c:v libx264 -x264-params slices=4"),
    ("h264-open-gop.mp4", "192x144", 25, 4, "-c:v libx264 -g 20 -bf 3 -x264-params open-gop=1"),
    ("h264-open-gop.mkv", "192x144", 25, 4, "-c:v libx264 -g 20 -bf 3 -x264-params open-gop=1"),
    ("h264-intra-refresh.mp4", "192x144", 25, 3, "-c:v libx264 -g 25 -x264-params intra-refresh=1"),
    ("h264-pyramid.mp4", "192x144", 25, 3, "-c:v libx264 -bf 5 -b-pyramid normal -refs 5 -weightp 2"),
    ("h264-10bit.mp4", "192x144", 25, 2, "-pix_fmt yuv420p10le -c:v libx264"),
    ("h264-422.mp4", "192x144", 25, 2, "-pix_fmt yuv422p -c:v libx264"),
    ("h264-422-10.mkv", "192x144", 25, 2, "-pix_fmt yuv422p10le -c:v libx264"),
    ("h264-gray.mp4", "192x144", 25, 1, "-pix_fmt gray -c:v libx264"),
    ("h264-tff.mp4", "192x144", 25, 2, "-c:v libx264 -flags +ildct+ilme -x264-params tff=1"),
    ("h264-crop.mp4", "190x130", 25, 2, "-c:v libx264"),
    ("h264-full-709.mp4", "192x144", 25, 1, "-vf scale=out_color_matrix=bt709:out_range=full -pix_fmt yuvj420p -colorspace bt709 -color_range pc -c:v libx264"),
    ("h264-709.mp4", "192x144", 25, 1, "-colorspace bt709 -c:v libx264"),
    ("h264-fragmented.mp4", "192x144", 25, 3, "-c:v libx264 -g 20 -movflags frag_keyframe+empty_moov+default_base_moof"),
    ("h264-fragmented-old.mp4", "192x144", 25, 3, "-c:v libx264 -g 20 -movflags frag_keyframe+empty_moov"),
    ("h264-negative-cts.mp4", "192x144", 25, 2, "-c:v libx264 -movflags negative_cts_offsets"),
    ("h264-faststart.mov", "192x144", 25, 2, "-c:v libx264 -movflags faststart"),
    ("h264-vfr.mp4", "192x144", 30, 3, "-vf select='not(eq(mod(n\\,7)\\,3))*not(eq(mod(n\\,5)\\,1))' -fps_mode vfr -c:v libx264"),
    ("h264-vfr.mkv", "192x144", 30, 3, "-vf select='not(eq(mod(n\\,7)\\,3))*not(eq(mod(n\\,5)\\,1))' -fps_mode vfr -c:v libx264"),
    ("h264-one.mp4", "192x144", 25, 0.04, "-c:v libx264"),
    ("h264-two.mkv", "192x144", 25, 0.08, "-c:v libx264"),
    ("h264-sound.mp4", "192x144", 25, 2, "-c:v libx264"),
    ("hevc.mp4", "320x240", 25, 3, X265),
    ("hevc-open-gop.mp4", "192x144", 25, 4, X265 + ":keyint=20:bframes=4:open-gop=1"),
    ("hevc-closed.mkv", "192x144", 25, 3, X265 + ":keyint=20:open-gop=0"),
    ("hevc-10bit.mp4", "192x144", 25, 2, "-pix_fmt yuv420p10le " + X265),
    ("hevc-444.mp4", "192x144", 25, 1, "-pix_fmt yuv444p " + X265),
    ("hevc-crop.mp4", "190x130", 25, 2, X265),
    ("hevc-2020.mp4", "192x144", 25, 1, "-pix_fmt yuv420p10le -colorspace bt2020nc " + X265),
    ("vp9.webm", "320x240", 25, 3, "-c:v libvpx-vp9 -b:v 300k -deadline good -cpu-used 5"),
    ("vp9.mp4", "192x144", 25, 2, "-c:v libvpx-vp9 -b:v 200k -deadline realtime"),
    ("vp9-odd.webm", "191x143", 25, 2, "-c:v libvpx-vp9 -b:v 200k -deadline good -cpu-used 5"),
    ("vp9-444.webm", "192x144", 25, 1, "-pix_fmt yuv444p -c:v libvpx-vp9 -b:v 200k -cpu-used 5"),
    ("vp9-10bit.webm", "192x144", 25, 1, "-pix_fmt yuv420p10le -c:v libvpx-vp9 -b:v 200k -cpu-used 5"),
    ("av1-svt.mp4", "320x240", 25, 3, "-c:v libsvtav1 -preset 10"),
    ("av1.webm", "192x144", 25, 2, "-c:v libaom-av1 -cpu-used 8 -b:v 200k"),
    ("av1-odd.mkv", "191x143", 25, 1, "-c:v libaom-av1 -cpu-used 8 -b:v 200k"),
    ("av1-10bit.mp4", "192x144", 25, 1, "-pix_fmt yuv420p10le -c:v libsvtav1 -preset 10"),
    ("av1-444.mp4", "192x144", 25, 0.6, "-pix_fmt yuv444p -c:v libaom-av1 -cpu-used 8 -b:v 200k"),
]
# Made of another clip.
DERIVED = [
    ("cut.mp4", "h264.mp4", "-ss 1.3 -t 1.2", "-c copy"),
    ("cut.mkv", "h264.mp4", "-ss 1.3 -t 1.2", "-c copy"),
    ("cut-hevc.mp4", "hevc-open-gop.mp4", "-ss 1.7", "-c copy"),
    ("cut-open.mp4", "h264-open-gop.mp4", "-ss 1.7", "-c copy"),
    ("offset.mp4", "h264.mp4", "-itsoffset 2.5", "-c copy"),
    ("offset.mkv", "h264.mp4", "-itsoffset 2.5", "-c copy -copyts"),
    ("turned.mp4", "h264.mp4", "", "-c copy -metadata:s:v rotate=90"),
    ("turned-180.mp4", "h264.mp4", "", "-c copy -metadata:s:v rotate=180"),
    ("turned-270.mov", "h264.mp4", "", "-c copy -metadata:s:v rotate=270"),
    ("live.mkv", "h264.mp4", "", "-c copy -live 1"),
    ("av1.mkv", "av1-svt.mp4", "", "-c copy"),
    ("hevc.mkv", "hevc.mp4", "", "-c copy"),
]
ONLY_FFMPEG = [
    ("mpeg4.avi", "192x144", 25, 2, "-c:v mpeg4"),
    ("h264.ts", "192x144", 25, 2, "-c:v libx264"),
    ("h264.flv", "192x144", 25, 2, "-c:v libx264"),
    ("vp8.webm", "192x144", 25, 1, "-c:v libvpx -b:v 200k"),
    ("prores.mov", "192x144", 25, 1, "-c:v prores_ks"),
    ("mpeg2.mpg", "192x144", 25, 1, "-c:v mpeg2video"),
]


def make(folder):
    clips = []
    for name, size, rate, seconds, options in MATRIX + ONLY_FFMPEG:
        path = os.path.join(folder, name)
        source = SRC.format(size=size, rate=rate, seconds=seconds)
        sound = ["-f", "lavfi", "-i", f"sine=d={seconds}"] if "sound" in name else []
        pixels = [] if "-pix_fmt" in options else ["-pix_fmt", "yuv420p"]
        command = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, *sound, *pixels]
        command += [word.strip("'") if word.startswith("select") else word for word in options.split()] + [path]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        clips.append((path, name in [row[0] for row in ONLY_FFMPEG]))
    for name, of, before, after in DERIVED:
        path = os.path.join(folder, name)
        command = ["ffmpeg", "-v", "error", "-y", *before.split(), "-i", os.path.join(folder, of), *after.split(), path]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        clips.append((path, False))
    return clips


FRACTION = 20
WEIGHTS = {1: (2126, 722), 4: (3000, 1100), 7: (2120, 870), 9: (2627, 593)}
LAYOUTS = {"yuv420p": (2, 2), "yuv422p": (2, 1), "yuv440p": (1, 2), "yuv444p": (1, 1), "yuvj420p": (2, 2), "gray": None}


def planes(frame):
    """The planes of a frame as arrays."""
    arrays = []
    for plane, component in zip(frame.planes, frame.format.components):
        raw = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
        wide = 2 if component.bits > 8 else 1
        row = raw[: plane.height, : plane.width * wide].copy()
        arrays.append(row.view("<u2") if wide == 2 else row)
    return arrays


def rgb(frame):
    """RGB by the formula that capjudge documents: nearest chroma, integers with 20 bits after the point."""
    name = frame.format.name
    if frame.format.is_rgb and not name.startswith("gbrp"):
        return frame.to_ndarray(format="rgb24")
    depth = frame.format.components[0].bits
    base = name.replace("10le", "").replace("12le", "")
    parts = [plane.astype(np.int64) for plane in planes(frame)]
    full = frame.color_range == 2 or name.startswith("yuvj")
    shift = depth - 8
    largest = (256 << shift) - 1
    black, luma, chroma = (0, largest, largest) if full else (16 << shift, 219 << shift, 224 << shift)
    ratio = lambda above, below: ((above * 255 << (FRACTION + 1)) + below) // (2 * below)
    light = (parts[0] - black) * ratio(1, luma) + (1 << (FRACTION - 1))
    if base in ("gray",):
        adds = [0, 0, 0]
    elif base == "gbrp":
        one = ratio(1, largest)
        colours = [((part * one + (1 << (FRACTION - 1))) >> FRACTION) for part in parts]
        return np.stack([colours[2], colours[0], colours[1]], -1).clip(0, 255).astype(np.uint8)
    else:
        kr, kb = WEIGHTS.get(frame.colorspace, (2990, 1140))
        kg = 10000 - kr - kb
        wide, high = LAYOUTS[base]
        h, w = parts[0].shape
        cb, cr = (np.repeat(np.repeat(part, high, 0), wide, 1)[:h, :w] - (128 << shift) for part in parts[1:3])
        adds = [
            cr * ratio(2 * (10000 - kr), 10000 * chroma),
            -cb * ratio(2 * (10000 - kb) * kb, 10000 * kg * chroma) - cr * ratio(2 * (10000 - kr) * kr, 10000 * kg * chroma),
            cb * ratio(2 * (10000 - kb), 10000 * chroma),
        ]
    return np.stack([(light + add) >> FRACTION for add in adds], -1).clip(0, 255).astype(np.uint8)


def reference(path, most):
    """Number, time and SHA-256 of each frame by PyAV; upright."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        out = []
        for frame in container.decode(stream):
            picture = rgb(frame)
            turn = round(-(frame.rotation or 0) / 90) % 4
            picture = np.ascontiguousarray(np.rot90(picture, -turn))
            out.append((frame.time, hashlib.sha256(picture.tobytes()).hexdigest()))
            if len(out) > most:
                return None
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--decoders", nargs="+", default=["builtin", "ffmpeg"], choices=["builtin", "ffmpeg"])
    parser.add_argument("--most", type=int, default=400, help="clips with more frames are sampled: 32 of them")
    parser.add_argument("--no-matrix", action="store_true")
    parser.add_argument("clips", nargs="*")
    args = parser.parse_args()
    folder = tempfile.mkdtemp()
    clips = ([] if args.no_matrix else make(folder)) + [(clip, False) for clip in args.clips]
    bad = asked = equal = 0
    for path, only_ffmpeg in clips:
        known = reference(path, 1 << 20)
        count = len(known)
        wanted = count if count <= args.most else 32
        for decoder in ["ffmpeg"] if only_ffmpeg else args.decoders:
            command = [args.binary, "frames", path, "--json", "--no-frame-cache", "--decoder", decoder]
            done = subprocess.run(command + ["--sample", "uniform", "--frames", str(wanted)], capture_output=True, text=True)
            if decoder == "builtin" and "(--decoder ffmpeg)" in done.stderr:
                print(f"{os.path.basename(path):28} {decoder:8} not built in", flush=True)
                continue
            if not done.stdout.strip():
                print(f"{os.path.basename(path):28} {decoder:8} FAILED: {done.stderr.strip()[:200]}", flush=True)
                bad += 1
                continue
            report = json.loads(done.stdout)
            same = sum(known[f["index"]][1] == f["sha256"] for f in report["frames"] if f["index"] < count)
            off = max((abs(known[f["index"]][0] - f["time"]) for f in report["frames"] if f["index"] < count), default=0)
            asked, equal = asked + wanted, equal + same
            wrong = same != wanted or report["total"] != count or off > 1e-6 or report["faults"]
            bad += bool(wrong)
            print(
                f"{os.path.basename(path):28} {decoder:8} {same}/{wanted} equal; frames {report['total']} of {count}; times off by "
                f"{off:.6f}{'; ' + report['faults'][0]['what'] if report['faults'] else ''}{'   <<<' if wrong else ''}",
                flush=True,
            )
    print(f"{equal} of {asked} frames equal; {bad} of the rows differ")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
