"""Makes a field-coded (PAFF) H.264 clip, which no free encoder writes.

usage: python h264_fields.py progressive.mp4 OUT.packets

Takes a progressive CAVLC stream without B frames (its data does not depend on fields), and writes new headers: frame 2n
becomes the top field of frame n, frame 2n + 1 the bottom field. The pictures make no sense, but they are well-defined.
The output is the avcC record and then each packet (two fields), all with four bytes of length before them; next to it,
OUT.h264 is the same as a byte stream, for ffmpeg. Needs PyAV.
"""

import struct
import sys

import av


class Bits:
    def __init__(self, data):
        self.text = "".join(f"{byte:08b}" for byte in data)
        self.at = 0

    def u(self, count):
        self.at += count
        return int(self.text[self.at - count : self.at] or "0", 2)

    def ue(self):
        zeros = self.text.index("1", self.at) - self.at
        self.at += zeros
        return self.u(zeros + 1) - 1


def ue(value):
    word = bin(value + 1)[2:]
    return "0" * (len(word) - 1) + word


def unescape(data):
    return data.replace(b"\0\0\3", b"\0\0")


def unit(header, bits):
    data = bytes(int(bits[at : at + 8].ljust(8, "0"), 2) for at in range(0, len(bits), 8))
    out, zeros = bytearray([header]), 0
    for byte in data:
        if zeros >= 2 and byte <= 3:
            out.append(3)
            zeros = 0
        out.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return bytes(out)


def main(source, target):
    container = av.open(source)
    stream = container.streams.video[0]
    record = bytes(stream.codec_context.extradata)
    size = int.from_bytes(record[6:8], "big")
    sps, rest = record[8 : 8 + size], record[8 + size + 1 :]
    pps = rest[2 : 2 + int.from_bytes(rest[:2], "big")]

    r = Bits(unescape(sps[1:]))
    r.u(16)
    level = r.u(8)
    assert r.ue() == 0
    number_bits = r.ue() + 4
    assert r.ue() == 2, "pictures are shown in decoding order"
    r.ue(), r.u(1)
    width, height = r.ue(), r.ue()
    # Main profile, two reference frames, fields, no cropping, no VUI.
    bits = f"{77:08b}{0:08b}{level:08b}" + ue(0) + ue(number_bits - 4) + ue(2) + ue(2) + "0"
    new_sps = unit(sps[0], bits + ue(width) + ue(height) + "00" + "1" + "0" + "0" + "1")

    fields = []
    for packet in container.demux(stream):
        data, at = bytes(packet), 0
        while at + 4 <= len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            nal, at = data[at + 4 : at + 4 + size], at + 4 + size
            if nal[0] & 31 not in (1, 5):
                continue
            r = Bits(unescape(nal[1:]))
            first_mb, kind, pps_id, _, idr = r.ue(), r.ue(), r.ue(), r.u(number_bits), nal[0] & 31 == 5
            if idr:
                r.ue()
            start = r.at
            if kind % 5 == 0:
                if r.u(1):
                    r.ue()
                assert r.u(1) == 0, "reference lists are as they come"
            lists = r.text[start : r.at]
            assert r.u(2 if idr else 1) == 0
            tail = r.text[r.at :].rstrip("0")
            frame, bottom = divmod(len(fields), 2)
            idr = idr and not bottom
            head = ue(first_mb) + ue(kind) + ue(pps_id) + f"{frame % (1 << number_bits):0{number_bits}b}" + f"1{bottom}"
            head += (ue(0) if idr else "") + lists + ("00" if idr else "0")
            fields.append(unit(0x65 if idr else 0x61, head + tail))

    def sized(data):
        return struct.pack(">I", len(data)) + data

    avcc = bytes([1, 77, 0, level, 0xFF, 0xE1]) + struct.pack(">H", len(new_sps)) + new_sps
    avcc += b"\1" + struct.pack(">H", len(pps)) + pps
    packets = [sized(top) + sized(bottom) for top, bottom in zip(fields[::2], fields[1::2])]
    with open(target, "wb") as out:
        out.write(b"".join(sized(data) for data in [avcc, *packets]))
    with open(target.rsplit(".", 1)[0] + ".h264", "wb") as out:
        out.write(b"".join(b"\0\0\0\1" + data for data in [new_sps, pps, *fields]))


main(*sys.argv[1:])
