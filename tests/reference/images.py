"""Writes the tiny images of tests/data/media/images, and what PIL makes of them: golden.json.

    python images.py OUTPUT_FOLDER

Made with Pillow 13.0.0. A lossless picture is written as the SHA-256 of its RGB bytes; a JPEG as the bytes themselves in
hex, because decoders differ by a level or two.
"""

import hashlib
import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

W, H = 13, 9


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png16(path, samples, colour):
    """PIL writes no 16-bit colour."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
    head = struct.pack(">IIBBBBB", samples.shape[1], samples.shape[0], 16, colour, 0, 0, 0)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    y, x = np.mgrid[0:H, 0:W]
    rgb = np.stack([x * 19, y * 28, (x + y) * 11], -1).astype(np.uint8)
    alpha = ((x * 40 + y * 7) % 256).astype(np.uint8)
    colour, gray = Image.fromarray(rgb), Image.fromarray(rgb[..., 2])
    rgba = Image.fromarray(np.dstack([rgb, alpha]))

    colour.save(out / "rgb.png")
    rgba.save(out / "rgba.png")
    Image.merge("LA", (gray, Image.fromarray(alpha))).save(out / "la.png")
    gray.save(out / "gray.png")
    gray.convert("1").save(out / "bits.png")
    palette = colour.quantize(9)
    palette.save(out / "palette.png", transparency=3)
    wide = rng.integers(0, 65536, (H, W, 4), dtype=np.uint16)
    png16(out / "rgb16.png", wide[..., :3], 2)
    png16(out / "rgba16.png", wide, 6)
    colour.save(out / "rgb.bmp")
    colour.save(out / "rgb.tif", compression="tiff_lzw")
    rgba.save(out / "rgba.webp", lossless=True, exact=True)
    palette.save(out / "one.gif")

    smooth = Image.fromarray(np.stack([x * 9 + 40, y * 12 + 60, x * 5 + y * 5 + 50], -1).astype(np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    smooth.save(out / "turned.jpg", quality=95, subsampling=0, exif=exif)
    smooth.convert("L").save(out / "gray.jpg", quality=95)
    smooth.convert("CMYK").save(out / "cmyk.jpg", quality=95)

    # A square that moves over a picture: frames that change only a part of it.
    frames = []
    for i in range(5):
        frame = rgb.copy() // 64 * 64
        frame[2 : 5, i * 2 : i * 2 + 3] = [255, 0, 0]
        frames.append(Image.fromarray(frame))
    frames[0].save(out / "moving.gif", save_all=True, append_images=frames[1:], duration=[0, 10, 20, 250, 40], loop=0)
    frames[0].save(out / "moving.png", save_all=True, append_images=frames[1:], duration=[100, 30, 5, 250, 40], loop=0)
    frames[0].save(
        out / "moving.webp", save_all=True, append_images=frames[1:], duration=[100, 30, 0, 250, 40], lossless=True
    )

    # Frames with parts that can be seen through, some of which are wiped away.
    seen = []
    for i in range(6):
        frame = np.zeros((H, W, 4), np.uint8)
        frame[i : i + 4, 2 * i : 2 * i + 5] = [200, 30 * i, 90, 60 + 39 * i]
        seen.append(Image.fromarray(frame))
    seen[0].save(out / "through.webp", save_all=True, append_images=seen[1:], duration=50, lossless=True, exact=True)
    seen[0].save(out / "lossy.webp", save_all=True, append_images=seen[1:], duration=50, quality=80, kmin=9, kmax=20)

    golden = {}
    for path in sorted(out.iterdir()):
        if path.suffix == ".json":
            continue
        image = Image.open(path)
        for i in range(getattr(image, "n_frames", 1)):
            image.seek(i)
            frame = ImageOps.exif_transpose(image).convert("RGB")
            entry = golden.setdefault(path.name, {"size": list(frame.size)})
            data = frame.tobytes()
            if path.suffix == ".jpg" or path.name == "lossy.webp":
                entry["rgb"] = entry.get("rgb", "") + data.hex()
            else:
                entry.setdefault("sha256", []).append(hashlib.sha256(data).hexdigest())
    # PIL clips 16-bit gray to 255; here the upper 8 bits are kept, as PIL does for 16-bit colour.
    png16(out / "gray16.png", wide[..., 0], 0)
    high = np.repeat((wide[..., :1] >> 8).astype(np.uint8), 3, -1)
    golden["gray16.png"] = {"size": [W, H], "sha256": [hashlib.sha256(high.tobytes()).hexdigest()]}
    (out / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
