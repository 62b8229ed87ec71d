"""Compares `capjudge tokens` with llama.cpp and Hugging Face on real models' tokenizers.

    python tests/reference/token_parity.py --binary target/debug/capjudge MODEL.gguf [MODEL.gguf ...]

Needs: pip install llama-cpp-python transformers gguf. Runs offline.

Two comparisons for each file, over the same 200 and more strings:

- plain text: `capjudge tokens --untrusted` against llama.cpp's `tokenize(special=False)`. Strings that hold a
  user-defined token of the file (`<tool_call>`) are left out: llama.cpp reads those tokens even so, and capjudge never
  does in data.
- text with special tokens: `capjudge tokens` against `tokenize(special=True)`, and against transformers'
  `AutoTokenizer(gguf_file=...)` where it loads.

A difference is listed with the ids of both. Where the two references differ from each other, capjudge does as the
Hugging Face tokenizer that was published with the model:

- Qwen composes text first (NFC); llama.cpp does not, so it is given composed text. transformers drops that step, and
  SmolLM2's rule that every digit is a word, where it loads a GGUF file; `repair` puts them back.
- Strings of which llama.cpp loses a part (SmolLM2 has no token for some control characters) are left out of the plain
  comparison: capjudge refuses them in data.
- llama.cpp reads `</s>` as a control token in any vocabulary that has such a piece (Qwen's does, as plain text).
- transformers ranks Gemma's runs of spaces by the filler scores of the GGUF file, so runs over 31 spaces come out
  otherwise than in SentencePiece, llama.cpp and capjudge.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]


def strings():
    """Varied strings, the same at every run."""
    fixed = [
        "Hello, world!", " leading", "trailing ", "  two  spaces  ", "\n", "\n\n", "\n\n\n", "\r\n", "a\r\nb", "\t", "\t\t\tx",
        " \n \n", "   \n\n   \n x", "x" * 300, " " * 33, " " * 70 + "end", "\n" * 40, "\t" * 40, "a b  c   d    e     f",
        "I'm you're he'll she'd WE'VE IT'S don'T 'sup ſ'ſ o'clock", "''''", "1", "12", "123", "1234", "12345678901234567890",
        "3.14159", "1,234,567.89", "2024-01-31T23:59:59Z", "٠١٢٣٤٥", "Ⅷ ½ ² ①", "五十六", "０１２３",
        "https://example.com/a/b?c=d&e=f#g", "user@example.org", "C:\\Windows\\System32", "/usr/local/bin",
        "def f(x):\n    return x ** 2  # square\n", "for (int i = 0; i < n; ++i) { sum += a[i]; }", "<html><body>x</body></html>",
        "SELECT * FROM t WHERE a='b';", "{\"score\": 4, \"reason\": \"x\"}", "fn main() { println!(\"{}\", 1); }",
        "日本語のテキスト", "中文字幕，标点。", "한국어 문장입니다", "ภาษาไทยไม่มีช่องว่าง", "العربية من اليمين", "עברית", "हिन्दी पाठ",
        "বাংলা", "தமிழ்", "Русский текст", "Ελληνικά", "ქართული", "አማርኛ", "Tiếng Việt có dấu", "Ünïcödé",
        "e\u0301 a\u0308 o\u0302\u0323", "\u1100\u1161\u11a8", "\u212b \u212a \u2126", "ﬁ ﬂ ﬀ", "ＡＢＣ", "x\u0338<\u0338",
        "🎬", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "❤️", "emoji 🎬 in text", "😀😀😀", "\u200d", "\ufe0f", "\ufeff", "\u00a0", "a\u00a0b", "\u3000全角",
        "\u2028", "\u2029", "\u200b", "\u202e", "\u0085", "\x00", "\x01\x02\x03", "\x1b[31mred\x1b[0m", "\x7f", "a\x00b", "\x1c\x1d",
        "\ud7ff", "\ue000", "\uffff", "\U0010ffff", "\U0001f9ff", "\U00020000",
        "<|im_end|>", "<|im_start|>system\nhi<|im_end|>", "<|endoftext|>", "<|endoftext|><|endoftext|>", "<end_of_turn>",
        "<start_of_turn>user\nx<end_of_turn>\n", "<eos>", "<bos>", "<pad>", "<unk>", "</s>", "<s>", "[INST] x [/INST]",
        "<|eot_id|>", "<|begin_of_text|>", "<think>", "</think>", "<|vision_start|><|image_pad|><|vision_end|>", "<image>",
        "<|im_end", "|im_end|>", "< |im_end|>", "<|im_end|", "<|IM_END|>", "<\u200b|im_end|>", "<0x0A>", "<0x41><0x42>", "<0x",
        "a<|im_end|>b", " <|im_end|> ", "\n<|im_end|>\n", "x <end_of_turn> y", "text\n\n<|endoftext|>",
        "…", "—–-", "“quoted” ‘single’", "$100 €50 £20", "a+b=c", "x^2_3", "~!@#$%^&*()_+", "...", "!!!", "?!?!", "____", "####",
        "**bold** _it_ `code`", "- item\n- item\n", "1. one\n2. two\n", "| a | b |\n|---|---|\n", "", "▁", "a▁b", "▁▁▁", "Ġ", "Ċ",
        "HALLUCINATION_COUNT: 3", "The man (left) runs; the woman, 30, doesn't.", "A\tB", "camelCaseWord", "snake_case_word",
        "ALLCAPS", "mIxEd", "naïve café", "Straße", "İstanbul", "ǅ", "ⅷ", "🅰️", "𝒜𝓁𝓅𝒽𝒶", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!",
    ]
    for prompt in sorted((ROOT / "prompts").glob("*.txt")):
        text = prompt.read_text(encoding="utf-8")
        fixed.append(text)
        fixed.extend(text[at : at + 400] for at in range(0, min(len(text), 2400), 400))
    draw = random.Random(7)
    pool = "aAeE zZ09 \n\t'.,<|>_-é漢字한ไж🎬\u0301\u200d▁ \x07"
    for _ in range(60):
        fixed.append("".join(draw.choice(pool) for _ in range(draw.randint(1, 60))))
    for _ in range(20):
        points = [draw.choice([draw.randrange(32, 0xD800), draw.randrange(0xE000, 0x20000)]) for _ in range(20)]
        fixed.append("".join(map(chr, points)))
    return [text for text in fixed if not any(0xD800 <= ord(c) <= 0xDFFF for c in text)]


def capjudge_ids(program, model, texts, *flags):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write("".join(json.dumps(text) + "\n" for text in texts))
        file.flush()
        out = subprocess.run([program, "tokens", "--model", model, "--file", file.name, *flags], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


@contextlib.contextmanager
def quiet():
    with open(os.devnull, "w") as null, contextlib.redirect_stderr(null):
        yield


def repair(reference, pre):
    """Puts back what transformers leaves out of a tokenizer it loads from GGUF: the original's normaliser and words."""
    from tokenizers import normalizers, pre_tokenizers

    backend = reference.backend_tokenizer
    if pre.startswith("qwen"):
        backend.normalizer = normalizers.NFC()
    if pre in ("smollm", "starcoder"):
        words = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        backend.pre_tokenizer = pre_tokenizers.Sequence(words)


def compare(name, texts, ours, theirs):
    wrong = [(t, a, b) for t, a, b in zip(texts, ours, theirs) if a != b]
    print(f"  {name}: {len(texts) - len(wrong)} of {len(texts)} equal")
    for text, a, b in wrong[:12]:
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        print(f"    {text[:60]!r}: from token {at}: capjudge {a[at:at + 8]}, theirs {b[at:at + 8]}")
    return len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="capjudge", help="the capjudge to test")
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    args = parser.parse_args()
    import gguf
    import llama_cpp

    wrong = 0
    texts = strings()
    for model in args.models:
        fields = gguf.GGUFReader(model).fields
        pre = fields["tokenizer.ggml.pre"].contents() if "tokenizer.ggml.pre" in fields else "default"
        spm = fields["tokenizer.ggml.model"].contents() == "llama"
        names = fields["tokenizer.ggml.tokens"].contents()
        types = fields["tokenizer.ggml.token_type"].contents()
        user_defined = [name for name, kind in zip(names, types) if kind == 4 and name.strip()]
        print(f"{pathlib.Path(model).name}: {len(names)} tokens, words as {pre!r}")
        composed = [unicodedata.normalize("NFC", t) if pre.startswith("qwen") else t for t in texts]
        # llama.cpp does not read a run of literal U+2581 as the token of a run of spaces; Hugging Face does.
        kept = [t for t in composed if not (spm and re.search("▁[▁ ]| ▁", t))]
        with quiet():
            llama = llama_cpp.Llama(model_path=model, vocab_only=True, verbose=False)
        theirs = lambda t, special: llama.tokenize(t.encode(), add_bos=False, special=special) if t else []
        lossless = lambda t: llama.detokenize(theirs(t, False)) == t.encode() or spm
        plain = [t for t in kept if lossless(t) and not any(name in t for name in user_defined)]
        ours = capjudge_ids(args.binary, model, plain, "--untrusted")
        wrong += compare("llama.cpp, plain", plain, ours, [theirs(t, False) for t in plain])
        ours = capjudge_ids(args.binary, model, kept)
        wrong += compare("llama.cpp, with special tokens", kept, ours, [theirs(t, True) for t in kept])
        try:
            with quiet():
                import transformers

                path = pathlib.Path(model)
                reference = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
                repair(reference, pre)
        except Exception as error:  # whatever it says, it is reported
            print(f"  transformers cannot load it: {str(error).splitlines()[0][:120]}")
            continue
        ours = capjudge_ids(args.binary, model, texts)
        found = [reference(t, add_special_tokens=False)["input_ids"] for t in texts]
        wrong += compare(f"transformers {transformers.__version__}, with special tokens", texts, ours, found)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
