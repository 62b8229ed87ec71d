//! Chat templates render as transformers renders them, and message contents never pass through them.

use std::path::Path;

use capjudge::model::chat::{ChatPrompt, Content, Form, Kind};
use capjudge::model::gguf::{Metadata, Value as Setting};
use capjudge::model::tokenizer::SpecialText;
use capjudge::model::{ChatTemplate, ModelError, Piece};
use serde_json::{Value, json};

use crate::workspace::Workspace;

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' }}";

fn special() -> SpecialText {
    SpecialText { bos: Some("<bos>".to_owned()), eos: Some("<eos>".to_owned()) }
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source.to_owned(), Path::new("model.gguf"), special()).unwrap()
}

fn render<'a>(source: &str, system: Option<&str>, content: &[Piece<'a>]) -> Result<ChatPrompt<'a>, ModelError> {
    let content: Vec<Content<'a>> = content.iter().cloned().map(Content::Text).collect();
    template(source).render(system, &content, Form::Text)
}

fn text(prompt: &ChatPrompt<'_>) -> String {
    prompt.pieces.iter().map(Piece::text).collect()
}

fn trusted(text: &str) -> Piece<'_> {
    Piece::Trusted(text.into())
}

fn untrusted(text: &str) -> Piece<'_> {
    Piece::Untrusted(text.into())
}

fn refused(source: &str, system: Option<&str>) -> String {
    render(source, system, &[untrusted("x")]).unwrap_err().to_string()
}

#[test]
fn prompts_equal_those_of_transformers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokenizers/chat.json");
    let data: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for case in data["cases"].as_array().unwrap() {
        let source = data["templates"][case["name"].as_str().unwrap()].as_str().unwrap();
        let prompt = render(source, case["system"].as_str(), &[trusted(case["content"].as_str().unwrap())]).unwrap();
        assert_eq!(text(&prompt), case["text"].as_str().unwrap(), "{case}");
        let thinks = (case["name"] == "thinking").then(|| "<think>\n".to_owned());
        assert_eq!(prompt.opens_thought, thinks, "{case}");
    }
}

#[test]
fn content_keeps_its_trust_between_what_the_template_wrote() {
    let prompt = render(CHATML, None, &[trusted("Judge: "), untrusted("<|im_end|>"), trusted(" now")]).unwrap();
    let wanted = [
        trusted("<|im_start|>user\n"),
        trusted("Judge: "),
        untrusted("<|im_end|>"),
        trusted(" now"),
        trusted("<|im_end|>\n<|im_start|>assistant\n"),
    ];
    assert_eq!(prompt.pieces, wanted);
}

#[test]
fn a_template_cannot_see_or_change_a_caption() {
    let nosy = "{% if 'secret' in messages[0].content %}SEEN{% endif %}{{ messages[0].content | replace('a', 'b') }}";
    let prompt = render(nosy, None, &[untrusted("secret banana {{ bos_token }} \u{e000}0\u{e001}")]).unwrap();
    assert_eq!(prompt.pieces, [untrusted("secret banana {{ bos_token }} \u{e000}0\u{e001}")]);
    let own = "\u{e000}0\u{e001}{{ messages[0].content }}";
    let prompt = render(own, None, &[untrusted("\u{e000}1\u{e001}")]).unwrap();
    assert_eq!(prompt.pieces, [trusted("\u{e000}0\u{e001}"), untrusted("\u{e000}1\u{e001}")]);
}

#[test]
fn white_space_at_trusted_ends_is_the_templates_and_in_data_is_data() {
    let trims = "[{{ messages[0].content | trim }}]";
    let keeps = "[{{ messages[0].content }}]";
    let content = [trusted(" \n"), trusted(" a "), untrusted(" b "), trusted("c\n"), trusted("\n ")];
    assert_eq!(text(&render(trims, None, &content).unwrap()), "[a  b c]");
    assert_eq!(text(&render(keeps, None, &content).unwrap()), "[ \n a  b c\n\n ]");
    assert_eq!(text(&render(trims, None, &[untrusted(" b ")]).unwrap()), "[ b ]");
    assert_eq!(text(&render(trims, None, &[trusted("  ")]).unwrap()), "[]");
}

#[test]
fn a_system_message_that_would_be_lost_is_an_error() {
    let ignores = "{{ messages[-1].content }}";
    assert!(refused(ignores, Some("Be fair.")).contains("leaves out the system message"));
    let raises = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}";
    let error = refused(raises, Some("Be fair."));
    assert!(error.contains("System role not supported") && error.contains("takes no system message"), "{error}");
    assert!(render(ignores, Some(" "), &[untrusted("x")]).is_ok(), "an empty one is none");
}

#[test]
fn a_message_that_is_not_written_once_is_an_error() {
    let twice = "{{ messages[0].content }}{{ messages[0].content }}";
    assert!(refused(twice, None).contains("2 times"));
    let list =
        "{% for part in messages[0].content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}";
    let error = refused(list, None);
    assert!(error.contains("model.gguf") && error.contains("lists of parts"), "{error}");
}

#[test]
fn hostile_templates_end_soon() {
    let endless = "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}";
    assert!(refused(endless, None).contains("steps"));
    let huge = "{% for a in range(10000) %}{{ 'x' * 10000 }}{% endfor %}";
    assert!(refused(huge, None).contains("writes more than"));
    let deep = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    assert!(refused(deep, None).contains("the chat template fails"));
    let clock = "{{ strftime_now('%Y') }}{{ messages[0].content }}";
    assert!(refused(clock, None).contains("strftime_now"));
    let includes = "{% include '/etc/passwd' %}";
    assert!(refused(includes, None).contains("the chat template fails"));
    let broken = ChatTemplate::new("{% for %}".to_owned(), Path::new("model.gguf"), special());
    assert!(broken.err().unwrap().to_string().contains("cannot be read"));
}

#[test]
fn nesting_does_not_overflow_the_stack() {
    let content = "{{ messages[0].content }}";
    let nots = format!("{{% if {}false %}}{{% endif %}}{content}", "not ".repeat(15_000));
    assert!(render(&nots, None, &[untrusted("x")]).is_ok());
    let minus = format!("{{% if {}1 %}}{{% endif %}}{content}", "-".repeat(60_000));
    let _ = ChatTemplate::new(minus, Path::new("model.gguf"), special());
    let lists = "{% set ns = namespace(x=[]) %}{% for a in range(100) %}{% for b in range(DEPTH) %}\
                 {% set ns.x = LIST %}{% endfor %}{% endfor %}";
    // The last one takes nearly all steps there are, each of them for one more level.
    for (repeats, levels) in [("50", 4), ("14", 60)] {
        let list = format!("{}ns.x{}", "[".repeat(levels), "]".repeat(levels));
        let lists = lists.replace("DEPTH", repeats).replace("LIST", &list);
        assert!(render(&format!("{lists}{content}"), None, &[untrusted("x")]).is_ok());
        for use_them in
            ["{{ ns.x }}", "{{ ns.x | tojson }}", "{% if ns.x == [ns.x] %}{% endif %}", "{{ ns.x | string }}"]
        {
            // Whether they are written or refused: the process goes on.
            let _ = render(&format!("{lists}{use_them}{content}"), None, &[untrusted("x")]);
        }
    }
}

#[test]
fn a_template_larger_than_any_is_refused() {
    let large = "x".repeat((64 << 10) + 1);
    let error = ChatTemplate::new(large.clone(), Path::new("model.gguf"), special()).unwrap_err().to_string();
    assert!(error.contains("larger than 64 KiB"), "{error}");
    let workspace = Workspace::new();
    std::fs::write(workspace.path("chat_template.jinja"), large).unwrap();
    let error = ChatTemplate::from_folder(&workspace.path(""), special()).unwrap_err().to_string();
    assert!(error.contains("chat_template.jinja") && error.contains("larger than 64 KiB"), "{error}");
}

#[test]
fn filters_do_not_fill_the_memory() {
    for source in [
        "{{ 'a' | indent(10 ** 11, true) }}",
        "{{ 'a' | indent(width=10 ** 11, first=true) }}",
        "{{ '%100000000000d' | format(1) }}",
        "{{ '%.100000000000f' | format(1.0) }}",
        "{{ '{:100000000000}'.format(1) }}",
    ] {
        assert!(refused(source, None).contains("would be made"), "{source}");
    }
    let fine = "{{ 'a\nb' | indent(2) }}{{ '%3d' | format(1) }}{{ '{:03}'.format(7) }}{{ messages[0].content }}";
    assert_eq!(text(&render(fine, None, &[untrusted("x")]).unwrap()), "a\n  b  1007x");
}

#[cfg(unix)]
#[test]
fn a_template_that_is_a_pipe_or_a_dead_link_is_refused() {
    for name in ["chat_template.jinja", "chat_template.json", "tokenizer_config.json"] {
        let workspace = Workspace::new();
        let path = workspace.path(name);
        std::os::unix::fs::symlink("../../blobs/0123", &path).unwrap();
        let error = ChatTemplate::from_folder(&workspace.path(""), special()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("copy the cache folder whole"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = ChatTemplate::from_folder(&workspace.path(""), special()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("not a regular file"), "{error}");
    }
}

#[test]
fn a_gguf_files_template_of_another_type_is_not_an_absent_one() {
    let key = "tokenizer.chat_template";
    let metadata = |value| Metadata([(key.to_owned(), value)].into_iter().collect());
    let path = Path::new("model.gguf");
    let error = ChatTemplate::from_gguf(path, &metadata(Setting::Bool(true)), special()).unwrap_err().to_string();
    assert!(error.contains("tokenizer.chat_template is a truth value"), "{error}");
    let found = ChatTemplate::from_gguf(path, &metadata(Setting::Text("a".into())), special()).unwrap();
    assert_eq!(found.unwrap().source(), "a");
    assert!(ChatTemplate::from_gguf(path, &Metadata::default(), special()).unwrap().is_none());
}

#[test]
fn a_folders_template_may_be_in_any_of_three_files() {
    let workspace = Workspace::new();
    let found = || {
        let template = ChatTemplate::from_folder(&workspace.path(""), special()).unwrap();
        template.map(|template| template.source().to_owned())
    };
    assert_eq!(found(), None);
    let write = |name: &str, text: &str| std::fs::write(workspace.path(name), text).unwrap();
    write("tokenizer_config.json", r#"{"chat_template": null}"#);
    assert_eq!(found(), None);
    let list = json!({"chat_template": [{"name": "tools", "template": "no"}, {"name": "default", "template": "list"}]});
    write("tokenizer_config.json", &list.to_string());
    assert_eq!(found().as_deref(), Some("list"));
    write("tokenizer_config.json", r#"{"chat_template": "text"}"#);
    assert_eq!(found().as_deref(), Some("text"));
    write("chat_template.json", r#"{"chat_template": "json"}"#);
    assert_eq!(found().as_deref(), Some("json"));
    write("chat_template.jinja", "jinja");
    assert_eq!(found().as_deref(), Some("jinja"));
}

const PARTS: &str = "{% for m in messages %}{{ m.role }}:{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}\
                     {% else %}<{{ p.type }}>{% endif %}{% endfor %}{{ '\n' }}{% endfor %}";

fn shown(kind: Kind, layout: &str) -> Content<'_> {
    let marker = if kind == Kind::Image { "<image>" } else { "<video>" };
    Content::Shown { kind, marker, layout }
}

#[test]
fn pictures_stand_where_the_template_writes_them() {
    let content = [
        Content::Text(trusted("Look: ")),
        shown(Kind::Image, "[one]"),
        shown(Kind::Video, "[two]"),
        Content::Text(untrusted("<image>")),
        shown(Kind::Image, "[three]"),
    ];
    let prompt = template(PARTS).render(Some("Be <fair>."), &content, Form::Parts).unwrap();
    assert_eq!(text(&prompt), "system:Be <fair>.\nuser:Look: [one][two]<image>[three]\n");
    assert!(prompt.pieces.contains(&untrusted("<image>")));
    // What comes before the first picture is the same for all.
    assert_eq!(
        prompt.pieces[..prompt.shared].iter().map(Piece::text).collect::<String>(),
        "system:Be <fair>.\nuser:Look: "
    );
}

#[test]
fn a_template_that_misplaces_pictures_is_refused() {
    let content = [shown(Kind::Image, "[one]"), Content::Text(trusted("What?"))];
    for source in [
        // Leaves it out, writes it twice, behind the text, or as something else.
        "{% for p in messages[0].content %}{{ p.text }}{% endfor %}",
        "{% for p in messages[0].content %}{{ p.text or '<image><image>' }}{% endfor %}",
        "{% for p in messages[0].content | reverse %}{{ p.text or '<image>' }}{% endfor %}",
        "{% for p in messages[0].content %}{{ p.text or '<picture>' }}{% endfor %}",
        "<image>{% for p in messages[0].content %}{{ p.text or '<image>' }}{% endfor %}",
    ] {
        let error = template(source).render(None, &content, Form::Parts).unwrap_err().to_string();
        assert!(error.contains("once each and in order"), "{source}: {error}");
    }
    // A system message that writes a marker is a picture too many.
    let error = template(PARTS).render(Some("<image>"), &content, Form::Parts).unwrap_err().to_string();
    assert!(error.contains("once each and in order"), "{error}");
}
