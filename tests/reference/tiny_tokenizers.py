"""Makes tests/data/tokenizers: tiny tokenizers, and what Hugging Face makes of texts with them.

    python tests/reference/tiny_tokenizers.py

Needs: pip install tokenizers transformers sentencepiece jinja2. The vocabularies are trained on prompts/*.txt.

Each folder is a Hugging Face folder plus `gguf.json`, the same vocabulary as GGUF metadata, and `ids.json`, texts with
their ids. `chat.json` holds chat templates with what transformers renders.
"""

import io
import json
import pathlib

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import generate_merges

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "data" / "tokenizers"
CORPUS = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "prompts").glob("*.txt"))]

QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
LLAMA3 = QWEN2.replace(r"\p{N}| ?", r"\p{N}{1,3}| ?")

TEXTS = [
    "The video shows a man.", " leading", "trailing ", "two  spaces   three", "\n\n\n", "a\r\nb", "\t\tx", "   \n  y",
    "IT'S we'LL don't ſ'ſ", "12345 1 22 333", "3.14", "漢字 かな 한국어", "ไทย", "العربية", "नमस्ते", "🎬👩‍👧 ❤️", "e\u0301 a\u0308", "\u212a",
    "\x00\x01\x1b", "https://a.b/c?d=e", "fn f() { 1 }", "<|im_start|>user\nhi<|im_end|>\n", "<think>\nx</think>", "<tool_call>{}",
    "<start_of_turn>user\nx<end_of_turn>", "<|eot_id|>x", "a<|im_end|> b <|im_end|>", "<table>", "<0x41>", "▁ a▁b", "event stop events",
    CORPUS[0][:600], "", " ", "      ", "x" * 40,
]


def save(name, tokenizer, config, gguf, texts=TEXTS):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    data = json.loads(tokenizer.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    (folder / "config.json").write_text("{}\n")
    vocab = tokenizer.get_vocab(with_added_tokens=True)
    tokens = [token for token, _ in sorted(vocab.items(), key=lambda item: item[1])]
    assert [vocab[token] for token in tokens] == list(range(len(tokens)))
    added = {token.content: token.special for token in tokenizer.get_added_tokens_decoder().values()}
    kind = lambda token: 3 if added.get(token) else 4 if token in added else 6 if gguf["model"] == "llama" and token.startswith("<0x") and len(token) == 6 else 1
    gguf = {**gguf, "tokens": tokens, "types": [kind(token) for token in tokens]}
    if gguf["model"] == "gpt2":
        gguf["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    (folder / "gguf.json").write_text(json.dumps(gguf, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    write_ids(folder / "ids.json", tokenizer, texts)


def write_ids(path, tokenizer, texts):
    cases = [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts]
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def byte_level(pattern, size, normalizer=None, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.normalizer = normalizer
    words = [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(words)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False))
    return tokenizer


def chatml(tokenizer):
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in ("<tool_call>", "</tool_call>", "<think>", "</think>")])
    return tokenizer


def qwen():
    config = {"eos_token": "<|im_end|>", "bos_token": None, "add_bos_token": False}
    for name, pattern, pre in (("qwen2", QWEN2, "qwen2"), ("qwen35", QWEN35, "qwen35")):
        tokenizer = chatml(byte_level(pattern, 420, normalizers.NFC()))
        save(name, tokenizer, config, {"model": "gpt2", "pre": pre, "eos": tokenizer.token_to_id("<|im_end|>")})


def llama3():
    tokenizer = byte_level(LLAMA3, 420)
    # A control token that is also a word of the vocabulary: data that says it must not become it.
    data = json.loads(tokenizer.to_str())
    data["model"]["ignore_merges"] = True
    data["model"]["vocab"]["stop"] = len(data["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(data))
    specials = ("stop", "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in specials])
    bos, eos = (tokenizer.token_to_id(t) for t in ("<|begin_of_text|>", "<|eot_id|>"))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", bos)])
    config = {"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|eot_id|>"}}
    save("llama3", tokenizer, config, {"model": "gpt2", "pre": "llama-bpe", "bos": bos, "eos": eos})


def gemma():
    trained = io.BytesIO()
    spaces = ["▁" * n for n in range(2, 6)]
    symbols = ["<table>", "[multimodal]", *("\n" * n for n in range(1, 5)), *spaces]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in CORPUS for line in text.splitlines() if line), model_writer=trained,
        model_type="bpe", vocab_size=640, byte_fallback=True, add_dummy_prefix=False, remove_extra_whitespaces=False,
        normalization_rule_name="identity", pad_id=0, eos_id=1, bos_id=2, unk_id=3, pad_piece="<pad>", eos_piece="<eos>",
        bos_piece="<bos>", unk_piece="<unk>", control_symbols=["<start_of_turn>", "<end_of_turn>"],
        user_defined_symbols=symbols, max_sentence_length=100000, minloglevel=2)
    model = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
    count = range(model.get_piece_size())
    vocab = {model.id_to_piece(i): i for i in count}
    control = [model.id_to_piece(i) for i in count if model.is_control(i) or model.is_unknown(i)]
    skip = control + [model.id_to_piece(i) for i in count if model.is_byte(i)]
    merges = generate_merges(vocab, {model.id_to_piece(i): model.get_score(i) for i in count}, skip)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in symbols])
    plain = [t for t in TEXTS if not any(c in t for c in control)]
    same = [t for t in plain if tokenizer.encode(t, add_special_tokens=False).ids == model.encode(t)]
    print(f"SentencePiece agrees on {len(same)} of {len(plain)} texts; not on {[t for t in plain if t not in same]}")
    # As converters write them: fillers for what was added.
    scores = [-1000.0 if model.id_to_piece(i) in control + symbols else model.get_score(i) for i in count]
    ids = {"bos": 2, "eos": 1, "unknown": 3}
    gguf = {"model": "llama", "pre": "default", "scores": scores, "add_space_prefix": False, "add_bos": True, **ids}
    config = {"bos_token": "<bos>", "eos_token": "<eos>", "add_bos_token": True}
    save("gemma", tokenizer, config, gguf)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    write_ids(OUT / "gemma" / "ids-with-dummy-space.json", tokenizer, [t for t in TEXTS if t])


CHATML = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
DEFAULT_SYSTEM = """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.tool_calls %}
        {{- message.tool_calls | tojson }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
THINKING = """{%- set ns = namespace(last=-1, multi=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi = false %}
        {%- set ns.last = index %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{{- ns.last | string }}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""
LLAMA = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined and false %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: " + date_string + "\\n\\n" + system_message + "<|eot_id|>" }}
{%- if tools is not none %}
    {{- "tools" }}
{%- endif %}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first = messages[0]['content'] + '\\n\\n' -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set first = "" -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}{{ item['text'] | trim }}{%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\\n' }}
{%- endif -%}
"""
BLOCKS = """{# a comment #}
{% for message in messages %}
  {% if message.role == 'user' %}
[{{ message.role | upper }}] {{ message.content }}
  {% else %}
{{ {'a': 1, 'b': ['é', '<x>', true, none]} | tojson }} {{ {'a': {'b': 1}} | tojson(indent=2) }} {{ message.content.strip().split(' ')[0] }} {{ message.content }}
  {% endif %}
{% endfor %}
{% if add_generation_prompt %}
{% generation %}A:{% endgeneration %}
{% endif %}
"""


def chat():
    cases = []
    for name, template in [("chatml", CHATML), ("default-system", DEFAULT_SYSTEM), ("thinking", THINKING), ("llama", LLAMA), ("gemma", GEMMA), ("blocks", BLOCKS)]:
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<bos>", eos_token="<eos>")
        for system in (None, "You judge captions.", "  Spaces around. \n"):
            for content in ("Hello there", "  leading and trailing \n\n", "line one\nline two\n"):
                messages = [{"role": "system", "content": system}] if system else []
                messages.append({"role": "user", "content": content})
                text = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)
                cases.append({"name": name, "system": system, "content": content, "text": text})
    templates = {"chatml": CHATML, "default-system": DEFAULT_SYSTEM, "thinking": THINKING, "llama": LLAMA, "gemma": GEMMA, "blocks": BLOCKS}
    (OUT / "chat.json").write_text(json.dumps({"templates": templates, "cases": cases}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    qwen()
    llama3()
    gemma()
    chat()
