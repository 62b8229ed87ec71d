//! Model files: good ones are read as they are, hostile ones are refused by name, and none makes the program panic.

use std::fs;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use capjudge::model::gguf::{Array, GgufFile, Value};
use capjudge::model::locate::{Located, cache_folder, locate_in};
use capjudge::model::safetensors::SafetensorsFolder;
use capjudge::model::{Bytes, ModelError};
use proptest::prelude::*;
use safetensors::Dtype;
use serde_json::json;

use crate::gguf_bytes::{Gguf, list, text};
use crate::workspace::Workspace;

fn read(bytes: Vec<u8>) -> Result<GgufFile, ModelError> {
    GgufFile::from_bytes(Path::new("model.gguf"), bytes.into())
}

/// The message of a file that must be refused.
fn refusal<T>(opened: Result<T, ModelError>) -> String {
    opened.err().expect("it should have been refused").to_string()
}

/// A small file with a value of every type and tensors of three types; no byte of it can be spared.
fn good() -> Gguf {
    Gguf::new()
        .key("general.architecture", 8, text("llama"))
        .key("general.alignment", 4, 32u32.to_le_bytes())
        .key("a.u8", 0, [200])
        .key("a.i8", 1, [0xff])
        .key("a.u16", 2, 60_000u16.to_le_bytes())
        .key("a.i16", 3, (-5i16).to_le_bytes())
        .key("a.i32", 5, (-6i32).to_le_bytes())
        .key("a.f32", 6, 0.5f32.to_le_bytes())
        .key("a.bool", 7, [1])
        .key("a.u64", 10, u64::MAX.to_le_bytes())
        .key("a.i64", 11, i64::MIN.to_le_bytes())
        .key("a.f64", 12, 0.1f64.to_le_bytes())
        .key("a.bytes", 9, list(0, 3, &[1, 2, 255]))
        .key("a.bools", 9, list(7, 2, &[0, 1]))
        .key("a.none", 9, list(8, 0, &[]))
        .key("tokenizer.ggml.tokens", 9, list(8, 2, &[text("<s>"), text("▁é")].concat()))
        .key("tokenizer.ggml.scores", 9, list(6, 2, &[0u8; 8]))
        .tensor("wide", &[32, 2], 8, &[7; 68])
        .tensor("half", &[4], 1, &[1; 8])
        .tensor("cube", &[2, 3, 4], 0, &[2; 96])
}

#[test]
fn a_gguf_file_is_read_as_it_is() {
    let workspace = Workspace::new();
    let path = workspace.path("model.gguf");
    for version in [2, 3] {
        fs::write(&path, Gguf { version, ..good() }.bytes()).unwrap();
        let file = GgufFile::open(&path).unwrap();
        assert_eq!(file.path(), path);
        assert_eq!(file.names().collect::<Vec<_>>(), ["cube", "half", "wide"]);
        let wide = file.tensor("wide").unwrap();
        assert_eq!((wide.dtype, wide.shape.as_slice(), &*wide.bytes), (GgmlDType::Q8_0, &[2, 32][..], &[7; 68][..]));
        let cube = file.tensor("cube").unwrap();
        assert_eq!((cube.dtype, cube.shape.as_slice(), &*cube.bytes), (GgmlDType::F32, &[4, 3, 2][..], &[2; 96][..]));
        assert_eq!(&*file.tensor("half").unwrap().bytes, [1; 8]);
        assert!(file.tensor("none").is_none());
        let metadata = file.metadata();
        assert_eq!(metadata.0.len(), 17);
        assert_eq!(metadata.text("general.architecture"), Some("llama"));
        assert_eq!(metadata.unsigned("a.u64"), Some(u64::MAX));
        assert_eq!(metadata.get("a.i64"), Some(&Value::Signed(i64::MIN)));
        assert_eq!(metadata.get("a.i8"), Some(&Value::Signed(-1)));
        assert_eq!(metadata.float("a.f64"), Some(0.1));
        assert_eq!(metadata.bool("a.bool"), Some(true));
        assert_eq!(metadata.integers("a.bytes"), Some(&[1, 2, 255][..]));
        assert_eq!(metadata.get("a.bools"), Some(&Value::Array(Array::Bools(vec![false, true]))));
        assert_eq!(metadata.texts("a.none"), Some(&[][..]));
        assert_eq!(metadata.texts("tokenizer.ggml.tokens").unwrap(), ["<s>", "▁é"]);
        assert_eq!(metadata.floats("tokenizer.ggml.scores"), Some(&[0.0, 0.0][..]));
    }
    // Another alignment, no tensors at all, bytes behind the data, and a description that is not UTF-8.
    let wide = Gguf { alignment: 128, ..Gguf::new() }.key("general.alignment", 4, 128u32.to_le_bytes());
    let wide = wide.tensor("a", &[1], 0, &[1; 4]).tensor("b", &[1], 0, &[2; 4]);
    assert_eq!(&*read(wide.bytes()).unwrap().tensor("b").unwrap().bytes, [2; 4]);
    assert_eq!(read(Gguf::new().bytes()).unwrap().names().count(), 0);
    read([good().bytes(), vec![0; 31]].concat()).unwrap();
    let described = read(Gguf::new().key("general.name", 8, text(b"caf\xe9")).bytes()).unwrap();
    assert_eq!(described.metadata().text("general.name"), Some("caf\u{fffd}"));
    read(Gguf::new().key("split.count", 2, 1u16.to_le_bytes()).bytes()).unwrap();
}

#[test]
fn a_hostile_gguf_header_is_refused_by_name() {
    let plain = Gguf::new;
    let key = |name: &str, kind: u32, value: Vec<u8>| plain().key(name, kind, value);
    let aligned = |size: u32| key("general.alignment", 4, size.to_le_bytes().into());
    let most = u64::MAX.to_le_bytes();
    let long = "n".repeat(300);
    let cases: Vec<(Gguf, &str)> = vec![
        (Gguf { magic: *b"GGML", ..good() }, "is not a GGUF file: it starts with `GGML`"),
        (Gguf { version: 1, ..good() }, "GGUF version 1 is not supported"),
        (Gguf { version: 4, ..good() }, "GGUF version 4 is not supported"),
        (Gguf { version: 3 << 24, ..good() }, "is a big-endian GGUF file"),
        // Counts and lengths.
        (Gguf { tensor_count: Some(u64::MAX), ..good() }, "the number of tensors is 18446744073709551615, more than"),
        (Gguf { key_count: Some(1 << 40), ..good() }, "the number of keys is 1099511627776, more than"),
        (Gguf { key_count: Some(2), ..key("a.text", 8, text([b'x'; 40])) }, "the length of the name of key 2 of 2"),
        (key("a.text", 8, [&most[..], b"x"].concat()), "the text of key `a.text` takes 18446744073709551615 bytes"),
        (key("a.list", 9, list(8, 1 << 60, &[])), "the number of items of key `a.list` is 1152921504606846976, more"),
        (key("a.list", 9, list(0, 9, &[1; 8])), "the number of items of key `a.list` is 9, more than the 8 bytes"),
        // Types and values.
        (key("a.odd", 13, vec![0; 8]), "key `a.odd` has a value of the unknown type 13"),
        (key("a.odd", 9, list(99, 0, &[])), "key `a.odd` is a list of items of the unknown type 99"),
        (key("a.nest", 9, list(9, 1, &list(0, 1, &[1]))), "key `a.nest` is a list of lists"),
        (key("a.bool", 7, vec![2]), "key `a.bool` is a truth value with the byte 2"),
        (key("a.bools", 9, list(7, 2, &[1, 255])), "key `a.bools` is a truth value with the byte 255"),
        (key("a.large", 9, list(10, 1, &most)), "key `a.large` has the item 18446744073709551615, which is over 2^63"),
        // Names and texts.
        (plain().key(b"\xff\xfe", 0, [1]), r"the name of key 1 of 1 is not UTF-8: `\xff\xfe`"),
        (plain().key("", 4, [0; 4]), "the name of key 1 of 1 is empty"),
        (plain().key("k".repeat(2000), 0, [1]), "the name of key 1 of 1 has 2000 bytes; up to 1024"),
        (key("tokenizer.ggml.tokens", 9, list(8, 1, &text(b"\xe2\x96"))), r"tokens` has the text `\xe2\x96`, which is"),
        (key("tokenizer.chat_template", 8, text(b"\x80")), r"key `tokenizer.chat_template` has the text `\x80`"),
        (plain().key("twice", 0, [1]).key("twice", 0, [2]), "key `twice` is there twice"),
        (plain().listed(b"\xc3", &[1], 0, 0), r"the name of tensor 1 of 1 is not UTF-8: `\xc3`"),
        (plain().listed(&long, &[1], 0, 0), "the name of tensor 1 of 1 has 300 bytes; up to 256"),
        (good().tensor("half", &[1], 0, &[0; 4]), "tensor `half` is there twice"),
        // What the whole file says of itself.
        (aligned(0), "key `general.alignment` is 0, not an unsigned power of two"),
        (aligned(48), "key `general.alignment` is 48, not"),
        (aligned(4), "key `general.alignment` is 4, not"),
        (aligned(1 << 31), "key `general.alignment` is 2147483648, not"),
        (key("general.alignment", 5, vec![32, 0, 0, 0]), "key `general.alignment` is a signed whole number, not"),
        (key("general.alignment", 8, text("32")), "key `general.alignment` is a text, not"),
        (key("split.count", 2, vec![3, 0]), "is one of 3 parts of a model (split.count); merge them"),
        (key("split.count", 8, text("3")), "key `split.count` is not a whole number"),
        // Tensors.
        (plain().listed("w", &[], 0, 0).listed("x", &[1; 4], 0, 0), "tensor `w` has 0 dimensions, not 1 to 4"),
        (plain().listed("w", &[1; 5], 0, 0), "tensor `w` has 5 dimensions, not 1 to 4"),
        (plain().listed("w", &[4, 0], 0, 0), "tensor `w` has the dimensions [4, 0], of which one is zero"),
        (
            plain().listed("w", &[1 << 32, 1 << 32], 0, 0),
            "tensor `w` has the dimensions [4294967296, 4294967296], whose",
        ),
        (plain().listed("w", &[1 << 62], 0, 0), "tensor `w` has the dimensions [4611686018427387904], whose product"),
        (
            plain().listed("w", &[33, 32], 8, 0),
            "tensor `w` has the dimensions [33, 32], whose first is not a multiple of",
        ),
        (plain().listed("w", &[32, 8], 12, 0), "whose first is not a multiple of 256"),
        (plain().listed("w", &[256], 20, 0), "tensor `w` has the type IQ4_NL, which is not supported; F32, F16,"),
        (plain().listed("w", &[256], 777, 0), "tensor `w` has the type of the unknown number 777"),
        (good().listed("w", &[1], 0, 4), "tensor `w` begins at offset 4, which is not a multiple of the alignment 32"),
        (
            good().listed("w", &[1], 0, 1 << 20),
            "tensor `w` takes 4 bytes at offset 1048576 of the data, beyond the end",
        ),
        (good().listed("w", &[1], 0, u64::MAX - 31), "tensor `w` takes 4 bytes at offset 18446744073709551584"),
        (good().listed("w", &[1000], 0, 0), "tensor `w` takes 4000 bytes at offset 0 of the data, beyond the end"),
        (good().listed("w", &[1], 0, 32), "tensors `wide` and `w` overlap"),
    ];
    for (file, wanted) in cases {
        let message = refusal(read(file.bytes()));
        assert!(message.starts_with("model.gguf: ") && message.contains(wanted), "{message}\nshould say\n{wanted}");
    }
}

#[test]
fn more_entries_than_any_model_has_are_refused_before_memory_is_spent() {
    let many = 9_000_000usize;
    let bytes = Gguf::new().key("a.bytes", 9, list(0, many as u64, &vec![0; many])).bytes();
    let message = refusal(read(bytes));
    assert!(message.contains("the number of items of key `a.bytes` is 9000000; up to 8388608"), "{message}");
    let bytes = [Gguf { key_count: Some(70_000), ..Gguf::new() }.bytes(), vec![0; 1_000_000]].concat();
    assert!(refusal(read(bytes)).contains("the number of keys is 70000; up to 65536"));
}

#[test]
fn a_gguf_file_cut_at_any_byte_is_refused() {
    let whole = good().bytes();
    assert!(read(whole.clone()).is_ok());
    for length in 0..whole.len() {
        let message = refusal(read(whole[..length].to_vec()));
        assert!(message.contains("cut off or damaged"), "cut at {length}: {message}");
    }
}

#[test]
fn what_is_no_file_of_weights_is_not_opened() {
    let workspace = Workspace::new();
    let empty = workspace.write("empty.gguf", "");
    assert!(refusal(GgufFile::open(&empty)).contains("empty.gguf: is empty"));
    let pointer = workspace.write("pointer.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n");
    assert!(refusal(GgufFile::open(&pointer)).contains("git lfs pull"));
    assert!(refusal(GgufFile::open(&workspace.path("."))).contains("is a folder"));
    assert!(refusal(GgufFile::open(&workspace.path("none.gguf"))).contains("none.gguf: "));
    #[cfg(unix)]
    assert!(refusal(GgufFile::open(Path::new("/dev/zero"))).contains("is not a regular file"));
}

proptest! {
    #[test]
    fn changed_bytes_of_a_gguf_file_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = good().bytes();
        let length = bytes.len();
        for (place, byte) in changes {
            bytes[place.index(length)] = byte;
        }
        if let Ok(file) = read(bytes) {
            for name in file.names() {
                let tensor = file.tensor(name).unwrap();
                let elements: usize = tensor.shape.iter().product();
                let size = elements / tensor.dtype.block_size() * tensor.dtype.type_size();
                prop_assert_eq!(tensor.bytes.len(), size);
            }
        }
    }

    #[test]
    fn changed_bytes_of_a_safetensors_file_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let workspace = Workspace::new();
        let mut bytes = safetensors_bytes(&two_tensors(), &[3; 12]);
        let length = bytes.len();
        for (place, byte) in changes {
            bytes[place.index(length)] = byte;
        }
        fs::write(workspace.path("model.safetensors"), bytes).unwrap();
        if let Ok(folder) = SafetensorsFolder::open(&workspace.path(".")) {
            let total: usize = folder.names().map(|name| folder.tensor(name).unwrap().bytes.len()).sum();
            prop_assert!(total <= 12);
        }
    }
}

/// A safetensors file: its header and its data.
fn safetensors_bytes(header: &str, data: &[u8]) -> Vec<u8> {
    [(header.len() as u64).to_le_bytes().as_slice(), header.as_bytes(), data].concat()
}

fn two_tensors() -> String {
    let one = json!({"dtype": "F32", "shape": [2], "data_offsets": [0, 8]});
    let two = json!({"dtype": "BF16", "shape": [1, 2], "data_offsets": [8, 12]});
    json!({"__metadata__": {"format": "pt"}, "one": one, "two": two}).to_string()
}

/// A file with one tensor of four bytes.
fn shard_with(name: &str) -> Vec<u8> {
    safetensors_bytes(&json!({name: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).to_string(), &[9; 4])
}

#[test]
fn a_safetensors_folder_is_read_as_it_is() {
    for name in ["model.safetensors", "another.safetensors"] {
        let workspace = Workspace::new();
        let file = workspace.path(name);
        fs::write(&file, safetensors_bytes(&two_tensors(), &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])).unwrap();
        let folder = SafetensorsFolder::open(&workspace.path("")).unwrap();
        assert_eq!(folder.names().collect::<Vec<_>>(), ["one", "two"]);
        let two = folder.tensor("two").unwrap();
        assert_eq!((two.dtype, two.shape.as_slice(), &two.file), (Dtype::BF16, &[1, 2][..], &file));
        assert_eq!(&*two.bytes, [9, 10, 11, 12]);
        assert!(folder.tensor("three").is_none());
    }
    let workspace = Workspace::new();
    for (shard, tensor) in [("a.safetensors", "one"), ("b.safetensors", "two")] {
        fs::write(workspace.path(shard), shard_with(tensor)).unwrap();
    }
    let map = json!({"metadata": {"total_size": 8}, "weight_map": {"one": "a.safetensors", "two": "b.safetensors"}});
    workspace.write("model.safetensors.index.json", &map.to_string());
    let folder = SafetensorsFolder::open(&workspace.path("")).unwrap();
    assert_eq!(folder.tensor("two").unwrap().file, workspace.path("b.safetensors"));
}

#[test]
fn a_hostile_safetensors_file_is_refused_by_name() {
    let tensor = |shape: &str, from: u64, to: u64| {
        format!(r#"{{"dtype": "F32", "shape": {shape}, "data_offsets": [{from}, {to}]}}"#)
    };
    let file = |pairs: &[(&str, String)]| {
        let body = pairs.iter().map(|(name, info)| format!("\"{name}\": {info}")).collect::<Vec<_>>().join(", ");
        safetensors_bytes(&format!("{{{body}}}"), &[0; 16])
    };
    let far = (1 << 61) - 1;
    let giant = |from: u64| format!(r#"{{"dtype":"U8","shape":[{far}],"data_offsets":[{from},{}]}}"#, from + far);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"{}".to_vec(), "has 2 bytes, and a safetensors file begins with a length of 8"),
        ([u64::MAX.to_le_bytes().as_slice(), b"{}"].concat(), "the header has 18446744073709551615 bytes"),
        ([99u64.to_le_bytes().as_slice(), b"{}"].concat(), "the header has 99 bytes, but 2 follow"),
        (safetensors_bytes("{", &[]), "the header is wrong (EOF while parsing"),
        (safetensors_bytes("[]", &[]), "expected a map from names to tensors"),
        ([2u64.to_le_bytes().as_slice(), b"\xff\xff"].concat(), "the header is not UTF-8"),
        (file(&[("w", tensor("[4]", 0, 16)), ("w", tensor("[4]", 0, 16))]), "`w` is there twice"),
        (file(&[("w", tensor("[8]", 0, 32))]), "tensor `w` lies at bytes 0 to 32 of the data, which has 16"),
        (file(&[("w", tensor("[4]", 16, 0))]), "tensor `w` lies at bytes 16 to 0"),
        (file(&[("w", tensor("[3]", 0, 16))]), "tensor `w` has 16 bytes, which type F32 and shape [3] do not take"),
        (file(&[("w", tensor("[4294967296, 4294967296]", 0, 16))]), "tensor `w` has 16 bytes, which type F32"),
        (file(&[("a", tensor("[3]", 0, 12)), ("w", tensor("[2]", 8, 16))]), "tensor `w` does not begin where the one"),
        (file(&[("a", tensor("[1]", 0, 4)), ("w", tensor("[2]", 8, 16))]), "tensor `w` does not begin where the one"),
        (file(&[("w", tensor("[2]", 0, 8))]), "the tensors take 8 bytes, but the file has 16"),
        (
            file(&[("w", r#"{"dtype": "F99", "shape": [], "data_offsets": [0, 0]}"#.into())]),
            "tensor `w`: unknown variant",
        ),
        (file(&[("w", "3".into())]), "tensor `w`: invalid type"),
        // Sizes whose sum, with a few more of them, wraps around.
        (file(&[("a", giant(0)), ("b", giant(far))]), "tensor `a` lies at bytes 0 to 2305843009213693951"),
    ];
    for (bytes, wanted) in cases {
        let workspace = Workspace::new();
        fs::write(workspace.path("model.safetensors"), bytes).unwrap();
        let message = refusal(SafetensorsFolder::open(&workspace.path("")));
        assert!(message.contains("model.safetensors: ") && message.contains(wanted), "{message}\nshould say\n{wanted}");
    }
    let workspace = Workspace::new();
    let whole = safetensors_bytes(&two_tensors(), &[3; 12]);
    for length in 0..whole.len() {
        fs::write(workspace.path("model.safetensors"), &whole[..length]).unwrap();
        refusal(SafetensorsFolder::open(&workspace.path("")));
    }
}

#[test]
fn an_index_that_does_not_fit_its_shards_is_refused() {
    let workspace = Workspace::new();
    fs::write(workspace.path("a.safetensors"), shard_with("one")).unwrap();
    fs::write(workspace.path("b.safetensors"), shard_with("two")).unwrap();
    fs::write(workspace.path("copy.safetensors"), shard_with("one")).unwrap();
    let cases = [
        ("{", "is not an index of safetensors (EOF"),
        ("{}", "missing field `weight_map`"),
        (r#"{"weight_map": {}}"#, "names no tensor"),
        (r#"{"weight_map": {"one": 3}}"#, "is not an index of safetensors (invalid type"),
        (r#"{"weight_map": {"one": "a.safetensors", "one": "b.safetensors"}}"#, "tensor `one` is there twice"),
        (r#"{"weight_map": {"one": "z.safetensors"}}"#, "names the shard `z.safetensors`, which is not in the folder"),
        (r#"{"weight_map": {"two": "a.safetensors"}}"#, "says that tensor `two` is in `a.safetensors`, but it is not"),
        (
            r#"{"weight_map": {"one": "b.safetensors", "two": "a.safetensors"}}"#,
            "says that tensor `one` is in `b.safetensors`, but it is not",
        ),
        (
            r#"{"weight_map": {"one": "a.safetensors", "x": "copy.safetensors"}}"#,
            "copy.safetensors: tensor `one` is in ",
        ),
    ];
    for (index, wanted) in cases {
        workspace.write("model.safetensors.index.json", index);
        let message = refusal(SafetensorsFolder::open(&workspace.path("")));
        assert!(message.contains(wanted), "{message}\nshould say\n{wanted}");
    }
}

#[test]
fn a_folder_without_weights_says_what_to_copy() {
    let workspace = Workspace::new();
    assert!(refusal(SafetensorsFolder::open(&workspace.path("none"))).contains("there is no such folder"));
    assert!(refusal(SafetensorsFolder::open(&workspace.path(""))).contains("copy the model's weights there"));
    workspace.write("pytorch_model.bin", "x");
    assert!(refusal(SafetensorsFolder::open(&workspace.path(""))).contains("convert them to safetensors"));
    fs::write(workspace.path("x.safetensors"), shard_with("one")).unwrap();
    fs::write(workspace.path("y.safetensors"), shard_with("two")).unwrap();
    assert!(refusal(SafetensorsFolder::open(&workspace.path(""))).contains("has 2 .safetensors files, but neither"));
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A cache with `org/judge` at one commit, to which the branch `main` points.
fn cache() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(&format!("models--org--judge/snapshots/{COMMIT}/config.json"), "{}");
    workspace.write("models--org--judge/refs/main", COMMIT);
    workspace
}

#[test]
fn a_model_is_found_by_file_folder_or_repository() {
    let cache = cache();
    let root = cache.path("");
    let find = |name: &str| locate_in(name, Some(&root));
    let snapshot = Located::Folder(cache.path(&format!("models--org--judge/snapshots/{COMMIT}")));
    assert_eq!(find("org/judge").unwrap(), snapshot);
    assert_eq!(find(&format!("org/judge@{COMMIT}")).unwrap(), snapshot);
    cache.write("models--org--judge/refs/main", &format!("{COMMIT}\n"));
    cache.write("models--org--judge/refs/refs/pr/1", COMMIT);
    assert_eq!(find("org/judge@main").unwrap(), snapshot);
    assert_eq!(find("org/judge@refs/pr/1").unwrap(), snapshot);

    let folder = Workspace::new();
    let name = |part: &str| folder.path(part).display().to_string();
    folder.write("hf/config.json", "{}");
    assert_eq!(find(&name("hf")).unwrap(), Located::Folder(folder.path("hf")));
    let file = folder.write("one/model.gguf", "");
    assert_eq!(find(&name("one")).unwrap(), Located::Gguf(file.clone()));
    assert_eq!(find(&name("one/model.gguf")).unwrap(), Located::Gguf(file.clone()));
    // A GGUF repository that carries the config of the model it was made of.
    folder.write("one/config.json", "{}");
    assert_eq!(find(&name("one")).unwrap(), Located::Gguf(file));
    folder.write("one/model.safetensors", "");
    assert_eq!(find(&name("one")).unwrap(), Located::Folder(folder.path("one")));

    // A path that exists wins: this is the source folder, not the repository.
    cache.write(&format!("models--src--model/snapshots/{COMMIT}/config.json"), "{}");
    cache.write("models--src--model/refs/main", COMMIT);
    assert!(refusal(find("src/model")).contains("src/model: there is neither config.json nor"));
}

#[test]
fn what_is_not_found_says_where_it_was_looked_for() {
    let cache = cache();
    let root = cache.path("");
    let find = |name: &str| refusal(locate_in(name, Some(&root)));
    assert!(find("org/other").contains("models--org--other in the Hugging Face cache; copy that folder over"));
    let message = find("org/judge@v2");
    assert!(message.contains("no snapshot of revision `v2`") && message.contains(COMMIT), "{message}");
    assert!(refusal(locate_in("org/other", None)).contains("set HF_HOME"));
    let folder = Workspace::new();
    folder.write("a.gguf", "");
    folder.write("b.gguf", "");
    folder.write("empty/readme", "");
    folder.write("weights.pth", "");
    let message = find(&folder.path("").display().to_string());
    assert!(message.contains("has 2 .gguf files") && message.contains("a.gguf\n") && message.contains("b.gguf"));
    assert!(find(&folder.path("empty").display().to_string()).contains("neither config.json nor a .gguf file"));
    assert!(find(&folder.path("weights.pth").display().to_string()).contains("is neither a .gguf file nor a folder"));
}

#[test]
fn no_name_leads_out_of_its_folder() {
    let workspace = Workspace::new();
    for shard in ["../x.safetensors", "/x.safetensors", "a/b.safetensors", r"..\x.safetensors", "c:x.safetensors", "x"]
    {
        let index = json!({"weight_map": {"one": shard}}).to_string();
        workspace.write("model.safetensors.index.json", &index);
        let message = refusal(SafetensorsFolder::open(&workspace.path("")));
        assert!(message.contains("puts tensor `one` into `"), "{message}");
    }
    let cache = cache();
    let names = [
        "judge", "org/judge/more", "../judge", "org/..", "org/jud--ge", "org/", "/judge", "org/ju dge", "org/-judge",
        "org/judge@", "org/judge@../main", "org/judge@refs//pr", "org/judge@a@b", "org\\judge", "org/j\0udge", "",
    ];
    for name in names {
        let message = refusal(locate_in(name, Some(&cache.path(""))));
        assert!(message.contains("there is no such file or folder; name a .gguf file"), "{name:?}: {message}");
    }
    for reference in ["../../../../secret", "", "main", "\u{1b}[2J"] {
        cache.write("models--org--judge/refs/main", reference);
        let message = refusal(locate_in("org/judge", Some(&cache.path(""))));
        assert!(message.contains("not the hash of a commit") && !message.contains('\u{1b}'), "{message}");
    }
}

#[test]
fn the_cache_is_where_the_environment_says() {
    let folder = |set: &[(&str, &str)], home: Option<&str>| {
        let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        cache_folder(variable, home.map(Into::into)).map(|path| path.display().to_string().replace('\\', "/"))
    };
    let all = [("HF_HUB_CACHE", "hub-cache"), ("HF_HOME", "hf"), ("XDG_CACHE_HOME", "xdg")];
    assert_eq!(folder(&all, Some("home")).unwrap(), "hub-cache");
    assert_eq!(folder(&all[1..], Some("home")).unwrap(), "hf/hub");
    assert_eq!(folder(&all[2..], None).unwrap(), "xdg/huggingface/hub");
    assert_eq!(folder(&[("HF_HOME", "")], Some("home")).unwrap(), "home/.cache/huggingface/hub");
    assert_eq!(folder(&[], None), None);
}

#[test]
fn parts_of_bytes_stay_inside_them() {
    let bytes = Bytes::from(vec![1, 2, 3, 4]);
    let middle = bytes.slice(1..3).unwrap();
    assert_eq!(&*middle, [2, 3]);
    assert_eq!(&*middle.slice(1..2).unwrap(), [3]);
    assert!(middle.slice(1..3).is_none() && bytes.slice(0..5).is_none());
    #[expect(clippy::reversed_empty_ranges, reason = "that is what must be refused")]
    let reversed = bytes.slice(3..1);
    assert!(reversed.is_none());
}
