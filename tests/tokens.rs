//! Tokens equal the reference's, and data never becomes a control token.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use capjudge::engine::text::TextStream;
use capjudge::model::gguf::{Array, Metadata, Value};
use capjudge::model::read::read_file;
use capjudge::model::{ModelError, Piece, TokenId, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::{NormalizedString, Normalizer};

use crate::workspace::Workspace;

const NAMES: [&str; 4] = ["qwen2", "qwen35", "llama3", "gemma"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokenizers").join(name)
}

fn read(path: &Path) -> Json {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The metadata that a GGUF file of this vocabulary would have.
fn metadata(gguf: &Json) -> Metadata {
    let texts = |key: &str| {
        let list = gguf[key].as_array()?.iter().map(|text| text.as_str().unwrap().to_owned()).collect();
        Some(Value::Array(Array::Texts(list)))
    };
    let mut values = BTreeMap::new();
    let mut set = |key: &str, value: Option<Value>| {
        values.extend(value.map(|value| (format!("tokenizer.ggml.{key}"), value)));
    };
    for key in ["model", "pre"] {
        set(key, gguf[key].as_str().map(|text| Value::Text(text.to_owned())));
    }
    set("tokens", texts("tokens"));
    set("merges", texts("merges"));
    let types = gguf["types"].as_array();
    set("token_type", types.map(|list| Value::Array(Array::Integers(list.iter().filter_map(Json::as_i64).collect()))));
    let scores = gguf["scores"].as_array();
    let scores = scores.map(|list| list.iter().map(|score| score.as_f64().unwrap() as f32).collect());
    set("scores", scores.map(|list| Value::Array(Array::Floats(list))));
    for key in ["bos", "eos", "unknown"] {
        set(&format!("{key}_token_id"), gguf[key].as_u64().map(Value::Unsigned));
    }
    set("add_space_prefix", gguf["add_space_prefix"].as_bool().map(Value::Bool));
    set("add_bos_token", gguf["add_bos"].as_bool().map(Value::Bool));
    Metadata(values)
}

fn from_gguf(gguf: &Json) -> Result<Tokenizer, ModelError> {
    Tokenizer::from_gguf(Path::new("model.gguf"), &metadata(gguf))
}

/// Every tokenizer, from its folder and as GGUF metadata, and one with a dummy space before texts.
pub static TOKENIZERS: LazyLock<Vec<(String, Tokenizer)>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for name in NAMES {
        all.push((name.to_owned(), Tokenizer::from_folder(&folder(name)).unwrap()));
        all.push((format!("{name} as GGUF"), from_gguf(&read(&folder(name).join("gguf.json"))).unwrap()));
    }
    all.push(("gemma with a dummy space".to_owned(), with_dummy_space()));
    all
});

fn with_dummy_space() -> Tokenizer {
    let mut gguf = read(&folder("gemma").join("gguf.json"));
    gguf["add_space_prefix"] = json!(true);
    from_gguf(&gguf).unwrap()
}

fn trusted(text: &str) -> Piece<'_> {
    Piece::Trusted(text.into())
}

fn untrusted(text: &str) -> Piece<'_> {
    Piece::Untrusted(text.into())
}

fn decode(tokenizer: &Tokenizer, ids: &[TokenId]) -> Vec<u8> {
    ids.iter().flat_map(|id| tokenizer.bytes(*id).unwrap()).collect()
}

/// What the tokenizer's normaliser makes of a text, as bytes: composed (Qwen), or with `▁` read as a space (Gemma).
fn normalized(name: &str, text: &str) -> Vec<u8> {
    if name.starts_with("qwen") {
        let mut text = NormalizedString::from(text);
        NFC.normalize(&mut text).unwrap();
        return text.get().as_bytes().to_vec();
    }
    if name.starts_with("gemma") { text.replace('▁', " ").into_bytes() } else { text.into() }
}

/// Encodes data behind trusted text, and asserts that it comes out whole and without a reserved token.
fn check_data(name: &str, tokenizer: &Tokenizer, pieces: &[&str]) {
    let mut all = vec![trusted("x")];
    let rubric = tokenizer.encode(&all).unwrap().len();
    all.extend(pieces.iter().map(|text| untrusted(text)));
    let ids = tokenizer.encode(&all).unwrap();
    let ids = &ids[rubric..];
    let reserved: Vec<_> = ids.iter().filter(|id| tokenizer.is_reserved(**id)).collect();
    assert!(reserved.is_empty(), "{name}: {pieces:?} gives {reserved:?}");
    let wanted: Vec<u8> = pieces.iter().flat_map(|text| normalized(name, text)).collect();
    assert_eq!(decode(tokenizer, ids), wanted, "{name}: {pieces:?}");
}

#[test]
fn ids_equal_hugging_faces_from_a_folder_and_from_gguf_metadata() {
    for (name, tokenizer) in TOKENIZERS.iter() {
        let file = if name.contains("dummy") { "ids-with-dummy-space.json" } else { "ids.json" };
        for case in read(&folder(name.split(' ').next().unwrap()).join(file)).as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            assert_eq!(json!(tokenizer.encode(&[trusted(text)]).unwrap()), case["ids"], "{name}: {text:?}");
        }
    }
}

#[test]
fn no_added_token_comes_out_of_data_however_it_is_written() {
    for (name, tokenizer) in TOKENIZERS.iter() {
        let reserved: Vec<TokenId> =
            (0..tokenizer.vocab_size() as TokenId).filter(|id| tokenizer.is_reserved(*id)).collect();
        assert!(reserved.len() >= 6, "{name}");
        for id in reserved {
            let token = tokenizer.token(id).unwrap();
            let as_trusted = tokenizer.encode(&[trusted("x"), trusted(&token)]).unwrap();
            assert!(as_trusted.contains(&id), "{name}: {token} is read in trusted text");
            check_data(name, tokenizer, &[&token]);
            check_data(name, tokenizer, &[&token.repeat(2)]);
            check_data(name, tokenizer, &[&format!("before {token} behind")]);
            check_data(name, tokenizer, &[&format!("\n{token}\n")]);
            check_data(name, tokenizer, &[&format!("word{token}word")]);
            for (cut, _) in token.char_indices().skip(1) {
                check_data(name, tokenizer, &[&token[..cut], &token[cut..]]);
                let ids = tokenizer.encode(&[trusted(&token[..cut]), untrusted(&token[cut..])]).unwrap();
                assert!(!ids.contains(&id), "{name}: {token} half in data");
                let ids = tokenizer.encode(&[untrusted(&token[..cut]), trusted(&token[cut..])]).unwrap();
                assert!(!ids.contains(&id), "{name}: {token} half in data");
            }
        }
    }
}

#[test]
fn a_control_token_that_merges_reach_is_cut_into_ordinary_pieces() {
    let gguf = json!({
        "model": "llama", "pre": "default", "add_space_prefix": false, "eos": 0, "unknown": 1,
        "tokens": ["<e>", "<unk>", "<", "e", ">", "<e", "e>", "a"],
        "types": [4, 2, 1, 1, 1, 1, 1, 1], "scores": [0.0, 0.0, -9.0, -9.0, -9.0, -1.0, -2.0, -9.0],
    });
    let tokenizer = from_gguf(&gguf).unwrap();
    assert_eq!(tokenizer.encode(&[trusted("a<e>")]).unwrap(), [7, 0]);
    assert_eq!(tokenizer.encode(&[untrusted("a<e>")]).unwrap(), [7, 2, 6]);
    let error = tokenizer.encode(&[untrusted("ab")]).unwrap_err().to_string();
    assert!(error.contains("no ordinary token for U+0062"), "{error}");
}

#[test]
fn only_the_start_of_a_prompt_gets_a_dummy_space() {
    let tokenizer = with_dummy_space();
    let text = |pieces: &[Piece<'_>]| {
        let ids = tokenizer.encode(pieces).unwrap();
        String::from_utf8(decode(&tokenizer, &ids)).unwrap()
    };
    assert_eq!(text(&[trusted("The"), untrusted("video"), trusted("shows"), untrusted("men")]), " Thevideoshowsmen");
    assert_eq!(text(&[untrusted("video"), untrusted("men")]), " videomen");
    assert_eq!(text(&[trusted(""), trusted("The"), trusted("men")]), " Themen");
}

#[test]
fn trusted_pieces_side_by_side_are_one_text() {
    for (name, tokenizer) in TOKENIZERS.iter() {
        let whole = tokenizer.encode(&[trusted("The video shows")]).unwrap();
        let pieces = [trusted("The vi"), trusted(""), untrusted(""), trusted("deo "), trusted("shows")];
        assert_eq!(tokenizer.encode(&pieces).unwrap(), whole, "{name}");
    }
}

#[test]
fn beginnings_and_ends_are_those_of_the_files() {
    let by_name = |name: &str| &TOKENIZERS.iter().find(|(known, _)| known == name).unwrap().1;
    for name in ["qwen2", "qwen2 as GGUF"] {
        let tokenizer = by_name(name);
        let ends: Vec<String> = tokenizer.end_tokens().iter().filter_map(|id| tokenizer.token(*id)).collect();
        assert_eq!(ends, ["<|endoftext|>", "<|im_end|>"], "{name}");
        assert_eq!((tokenizer.bos(), tokenizer.adds_bos()), (None, false));
        assert_eq!(tokenizer.special_text().eos.as_deref(), Some("<|im_end|>"));
        let think = tokenizer.find("<think>").unwrap();
        assert_eq!(tokenizer.bytes(think).unwrap(), b"<think>", "text that was added is text");
        assert!(tokenizer.bytes(tokenizer.find("<|im_end|>").unwrap()).unwrap().is_empty());
    }
    for name in ["llama3", "llama3 as GGUF", "gemma", "gemma as GGUF"] {
        let tokenizer = by_name(name);
        assert!(tokenizer.adds_bos(), "{name}");
        assert!(tokenizer.special_text().bos.unwrap().starts_with("<"), "{name}");
        assert!(tokenizer.encode(&[trusted("a")]).unwrap().iter().all(|id| Some(*id) != tokenizer.bos()), "{name}");
        let end = if name.starts_with("llama") { "<|eot_id|>" } else { "<end_of_turn>" };
        assert!(tokenizer.is_end(tokenizer.find(end).unwrap()), "{name}");
    }
}

#[test]
fn ends_may_be_lists_of_other_files() {
    let workspace = Workspace::new();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(folder("qwen2").join(file), workspace.path(file)).unwrap();
    }
    std::fs::write(workspace.path("generation_config.json"), r#"{"eos_token_id": [5, 6, 99999999]}"#).unwrap();
    let tokenizer = Tokenizer::from_folder(&workspace.path("")).unwrap();
    assert!(tokenizer.is_end(5) && tokenizer.is_end(6) && !tokenizer.is_end(99_999_999));
}

#[test]
fn a_broken_tokenizer_is_refused_with_the_file_and_the_reason() {
    let workspace = Workspace::new();
    let refused = |change: &dyn Fn(&mut Json)| {
        let mut json = read(&folder("qwen2").join("tokenizer.json"));
        change(&mut json);
        std::fs::write(workspace.path("tokenizer.json"), json.to_string()).unwrap();
        Tokenizer::from_folder(&workspace.path("")).unwrap_err().to_string()
    };
    for (change, reason) in [
        (
            &(|json: &mut Json| json["model"]["type"] = json!("WordPiece")) as &dyn Fn(&mut Json),
            "only BPE is supported",
        ),
        (&|json| json["model"]["merges"][0] = json!(["no", "such"]), "which is missing"),
        (&|json| json["model"]["vocab"]["far"] = json!(4_000_000_000_u32), "no model has more than"),
        (&|json| json["model"]["vocab"]["beyond"] = json!(1_u64 << 40), "is the file whole?"),
        (&|json| json["model"]["vocab"]["double"] = json!(3), "have the same number 3"),
        (&|json| json["added_tokens"][0]["content"] = json!("a"), "in the vocabulary"),
        (&|json| json["model"] = json!({}), "is the file whole?"),
    ] {
        let error = refused(change);
        assert!(error.contains(reason) && error.contains("tokenizer.json"), "{error}");
    }
    std::fs::remove_file(workspace.path("tokenizer.json")).unwrap();
    let error = Tokenizer::from_folder(&workspace.path("")).unwrap_err().to_string();
    assert!(error.contains("not found"), "{error}");

    let gguf = read(&folder("qwen2").join("gguf.json"));
    for (key, value, reason) in [
        ("model", json!("t5"), "supported are"),
        ("model", json!(null), "no tokenizer in it"),
        ("pre", json!("never-heard-of"), "known are llama-bpe"),
        ("tokens", json!([]), "missing or empty"),
        ("types", json!([1, 2]), "token_type is missing"),
        ("merges", json!(["a"]), "not two tokens"),
        ("merges", json!(["no such"]), "which is missing"),
        ("eos", json!(1_u64 << 33), "is not a token's number"),
        ("eos", json!(77_777_777), "is not in the vocabulary"),
    ] {
        let mut gguf = gguf.clone();
        gguf[key] = value;
        let error = from_gguf(&gguf).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("model.gguf"), "{key}: {error}");
    }
}

/// A folder with the smallest tokenizer, which a test then damages.
fn small_folder() -> Workspace {
    let workspace = Workspace::new();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(folder("qwen2").join(file), workspace.path(file)).unwrap();
    }
    workspace
}

#[cfg(unix)]
#[test]
fn a_pipe_or_device_in_place_of_a_file_is_not_waited_for() {
    for name in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"] {
        let workspace = small_folder();
        let path = workspace.path(name);
        let _ = std::fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = Tokenizer::from_folder(&workspace.path("")).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("not a regular file"), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = Tokenizer::from_folder(&workspace.path("")).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("not a regular file"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_whose_file_was_not_copied_is_not_a_missing_file() {
    for name in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"] {
        let workspace = small_folder();
        let _ = std::fs::remove_file(workspace.path(name));
        std::os::unix::fs::symlink("../../blobs/0123", workspace.path(name)).unwrap();
        let error = Tokenizer::from_folder(&workspace.path("")).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("copy the cache folder whole"), "{error}");
    }
}

#[test]
fn a_file_is_read_up_to_its_limit_and_not_beyond() {
    let workspace = Workspace::new();
    let path = workspace.path("file");
    assert!(read_file(&path, 4).unwrap().is_none());
    std::fs::write(&path, "four").unwrap();
    assert_eq!(read_file(&path, 4).unwrap().unwrap(), b"four");
    let error = read_file(&path, 3).unwrap_err().to_string();
    assert!(error.contains("larger than 3 bytes"), "{error}");
    let error = read_file(&workspace.path(""), 4).unwrap_err().to_string();
    assert!(error.contains("is a folder"), "{error}");
}

#[test]
fn scores_that_rank_nothing_are_refused() {
    for score in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut metadata = metadata(&read(&folder("gemma").join("gguf.json")));
        let Some(Value::Array(Array::Floats(scores))) = metadata.0.get_mut("tokenizer.ggml.scores") else { panic!() };
        scores[300] = score;
        let error = Tokenizer::from_gguf(Path::new("model.gguf"), &metadata).unwrap_err().to_string();
        assert!(error.contains("tokenizer.ggml.scores") && error.contains("token 300"), "{error}");
    }
}

#[test]
fn a_token_longer_than_any_is_refused_by_its_number() {
    for name in ["qwen2", "gemma"] {
        let mut gguf = read(&folder(name).join("gguf.json"));
        gguf["tokens"][300] = json!("a".repeat(600_000));
        let error = from_gguf(&gguf).unwrap_err().to_string();
        assert!(error.contains("token 300 is 600000 bytes long"), "{error}");
    }
    let error = with_json(|json| json["model"]["vocab"]["a".repeat(1025)] = json!(9999)).unwrap_err().to_string();
    assert!(error.contains("token 9999 is 1025 bytes long"), "{error}");
    assert!(with_json(|json| json["model"]["vocab"]["a".repeat(1024)] = json!(9999)).is_ok());
}

#[test]
fn a_key_of_another_type_is_not_an_absent_key() {
    let with = |name: &str, key: &str, value: Value| {
        let mut metadata = metadata(&read(&folder(name).join("gguf.json")));
        metadata.0.insert(format!("tokenizer.ggml.{key}"), value);
        Tokenizer::from_gguf(Path::new("model.gguf"), &metadata)
    };
    for key in ["bos", "eos", "eot", "eom", "unknown"] {
        let key = format!("{key}_token_id");
        let wrong = [Value::Text("5".into()), Value::Float(5.0), Value::Bool(true), Value::Signed(-2)];
        for value in wrong.into_iter().chain([Value::Unsigned(640), Value::Unsigned(1 << 40)]) {
            let error = with("gemma", &key, value).unwrap_err().to_string();
            assert!(error.contains(&format!("tokenizer.ggml.{key} is ")), "{error}");
        }
        for none in [Value::Signed(-1), Value::Unsigned(u64::from(u32::MAX))] {
            assert!(with("gemma", &key, none).is_ok(), "{key}");
        }
    }
    for key in ["model", "pre", "add_bos_token"] {
        let error = with("qwen2", key, Value::Unsigned(1)).unwrap_err().to_string();
        assert!(error.contains(&format!("tokenizer.ggml.{key} is a whole number, where")), "{error}");
    }
    for key in ["add_space_prefix", "add_bos_token"] {
        let error = with("gemma", key, Value::Text("no".into())).unwrap_err().to_string();
        assert!(error.contains(&format!("tokenizer.ggml.{key} is a text, where")), "{error}");
    }
}

/// The tokenizer of a folder whose `tokenizer.json` is changed.
fn with_json(change: impl FnOnce(&mut Json)) -> Result<Tokenizer, ModelError> {
    let workspace = small_folder();
    let mut json = read(&workspace.path("tokenizer.json"));
    change(&mut json);
    std::fs::write(workspace.path("tokenizer.json"), json.to_string()).unwrap();
    Tokenizer::from_folder(&workspace.path(""))
}

#[test]
fn a_normaliser_that_panics_or_explodes_is_refused_by_name() {
    let replace = |pattern: Json, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
    let sixteenfold = replace(json!({"String": "a"}), &"a".repeat(16));
    for (normalizer, reason) in [
        (json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"}), "Precompiled, which is not supported"),
        (json!({"type": "BertNormalizer", "lowercase": true}), "BertNormalizer, which is not supported"),
        (json!({"type": "ByteLevel"}), "ByteLevel, which is not supported"),
        (json!({"type": "Sequence", "normalizers": [{"type": "Nmt"}]}), "Nmt, which is not supported"),
        (json!({"lowercase": true}), "without a type"),
        (json!({"type": "Sequence"}), "without normalizers"),
        (json!({"type": "Strip"}), "cannot be read"),
        (replace(json!({"String": ""}), "a"), "pattern of Replace is empty"),
        (replace(json!({"Regex": ""}), "a"), "pattern of Replace is empty"),
        (replace(json!({"String": "a"}), &"b".repeat(17)), "Replace with 17 characters"),
        (json!({"type": "Sequence", "normalizers": [sixteenfold, sixteenfold]}), "over several steps"),
        (json!({"type": "Prepend", "prepend": ""}), "empty Prepend"),
        (json!({"type": "Prepend", "prepend": "▁".repeat(17)}), "Prepend of 17 characters"),
        (json!({"type": "Sequence", "normalizers": vec![json!({"type": "NFC"}); 16]}), "more than 16 steps"),
    ] {
        let error = with_json(|json| json["normalizer"] = normalizer.clone()).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("tokenizer.json"), "{normalizer}: {error}");
    }
    for kind in ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"] {
        let steps = json!([{"type": kind}, {"type": "Strip", "strip_left": true, "strip_right": false}]);
        let normalizer = json!({"type": "Sequence", "normalizers": steps});
        assert!(with_json(|json| json["normalizer"] = normalizer).is_ok(), "{kind}");
    }
}

#[test]
fn a_pattern_that_the_library_panics_on_is_an_error() {
    let tokenizer = with_json(|json| {
        json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!("(a+)+$");
    });
    let tokenizer = tokenizer.unwrap();
    let text = format!("{}b", "a".repeat(40));
    for piece in [trusted(&text), untrusted(&text)] {
        let error = tokenizer.encode(&[piece]).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json") && error.contains("failed on this text"), "{error}");
    }
    assert!(tokenizer.encode(&[trusted("b")]).is_ok(), "it can be used again");
}

#[test]
fn a_text_beyond_all_contexts_is_refused_before_it_is_read() {
    let (_, tokenizer) = &TOKENIZERS[0];
    assert!(tokenizer.encode(&[untrusted(&" ".repeat(1 << 16))]).is_ok(), "a long one");
    let error = tokenizer.encode(&[untrusted(&"x".repeat((4 << 20) + 1))]).unwrap_err().to_string();
    assert!(error.contains("longer than any prompt"), "{error}");
}

#[test]
fn the_verb_shows_tokens_and_refuses_what_is_no_model() {
    let workspace = Workspace::new();
    let model = folder("qwen2").display().to_string();
    workspace.run(&format!("tokens --model {model} --text -a<|im_end|>")).exits(0).prints("  <|im_end|>\n");
    let data = workspace.run(&format!("tokens --model {model} --text -a<|im_end|> --untrusted --json")).exits(0);
    assert!(
        data.stdout.contains("\"reserved\":false") && !data.stdout.contains("\"reserved\":true"),
        "{}",
        data.stdout
    );
    workspace.write("strings.jsonl", "\"a\"\n\"\"\n\"<|im_end|>\"\n");
    let end = TOKENIZERS[0].1.find("<|im_end|>").unwrap();
    let ids = workspace.run(&format!("tokens --model {model} --file strings.jsonl")).exits(0);
    assert!(ids.stdout.ends_with(&format!("]\n[]\n[{end}]\n")), "{}", ids.stdout);
    workspace.write("strings.jsonl", "{}\n");
    workspace.run(&format!("tokens --model {model} --file strings.jsonl")).exits(2).says("strings.jsonl:1");
    workspace.run("tokens --model nowhere --text a").exits(4);
}

/// Text of what could become control: token names, halves of them, and any characters.
fn nasty_text() -> impl Strategy<Value = String> {
    let mut names: Vec<String> = Vec::new();
    for (_, tokenizer) in TOKENIZERS.iter() {
        let ids = 0..tokenizer.vocab_size() as TokenId;
        names.extend(ids.filter(|id| tokenizer.is_reserved(*id)).filter_map(|id| tokenizer.token(id)));
    }
    names.extend(
        ["<0x41>", "<|", "|>", "im_end", "\n\n", "  ", "▁▁", "Ġ", "\u{301}", "\u{e000}0\u{e001}"].map(str::to_owned),
    );
    let part = prop_oneof![prop::sample::select(names), any::<char>().prop_map(String::from), ".{1,8}", "[a-z ]{1,8}"];
    prop::collection::vec(part, 1..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn data_comes_back_byte_for_byte_and_never_as_control(text in nasty_text(), more in nasty_text()) {
        for (name, tokenizer) in TOKENIZERS.iter() {
            check_data(name, tokenizer, &[&text, &more]);
        }
    }

    #[test]
    fn text_streams_as_the_whole_would_read(bytes in nasty_bytes(), cuts in prop::collection::vec(0..40_usize, 0..12)) {
        let mut stream = TextStream::new();
        let mut text = String::new();
        let mut rest = bytes.as_slice();
        for cut in cuts {
            let (token, behind) = rest.split_at(cut.min(rest.len()));
            text.push_str(&stream.push(token));
            rest = behind;
        }
        for byte in rest {
            text.push_str(&stream.push(&[*byte]));
        }
        text.push_str(&stream.finish());
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }
}

/// Bytes with whole, broken and unfinished characters.
fn nasty_bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        any::<char>().prop_map(|c| c.to_string().into_bytes()),
        (any::<char>(), 1..4_usize).prop_map(|(c, cut)| c.to_string().into_bytes()[..cut.min(c.len_utf8())].to_vec()),
        prop::sample::select(vec![vec![0xf0, 0x9f], vec![0xed, 0xa0, 0x80], vec![0xc0, 0x80], vec![0xf4, 0x90]]),
    ];
    prop::collection::vec(part, 0..16).prop_map(|parts| parts.concat())
}

#[test]
fn a_character_is_held_back_until_it_is_whole() {
    let mut stream = TextStream::new();
    assert_eq!(stream.push(b"a\xf0\x9f"), "a");
    assert_eq!(stream.push(b"\x8e"), "");
    assert_eq!(stream.push(b"\xac!"), "🎬!");
    assert_eq!(stream.push(b"\xe6"), "");
    assert_eq!(stream.finish(), "\u{fffd}");
}
