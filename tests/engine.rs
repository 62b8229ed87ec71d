//! The engine: results that do not depend on how work is cut up, to the last bit.

use std::ops::ControlFlow;

use candle_core::{Device, Tensor};
use capjudge::engine::{
    Chunk, Engine, EngineError, Generating, Generation, GenerationEnd, Input, Prefix, Rows, Visual,
};
use capjudge::engine::{Sampler, Sampling, Sequence, Stretch, generate, prefill, top};
use capjudge::model::{LoadOptions, Model};

use crate::models::{CHECKPOINTS, all_logits, engine, folder, golden, greedy, step};

fn bits(logits: &[Vec<f32>]) -> Vec<Vec<u32>> {
    logits.iter().map(|row| row.iter().map(|logit| logit.to_bits()).collect()).collect()
}

fn fork(engine: &Engine, room: usize) -> Sequence {
    engine.fork(&Prefix::default(), room).unwrap()
}

#[test]
fn logits_do_not_depend_on_how_a_prompt_is_cut() {
    for name in CHECKPOINTS {
        let engine = engine(name);
        let ids = &golden(name).prompts[0].ids;
        let whole = bits(&all_logits(&engine, ids));
        for size in [1, 2, 3, 5, 7, ids.len() - 1] {
            let mut sequence = fork(&engine, ids.len());
            let cut: Vec<Vec<f32>> = ids
                .chunks(size)
                .flat_map(|chunk| step(&engine, &mut sequence, chunk, Rows::All).of(0).to_vec())
                .collect();
            assert_eq!(bits(&cut), whole, "{name} in pieces of {size}");
        }
    }
}

#[test]
fn a_shared_prefix_changes_no_bit_and_is_not_copied() {
    for name in CHECKPOINTS {
        let engine = engine(name);
        let ids = &golden(name).prompts[0].ids;
        let whole = bits(&all_logits(&engine, ids));
        for at in [1, 9, ids.len() - 1] {
            let prefix =
                prefill(&engine, &[Stretch::Tokens(&ids[..at])], &mut |_| ControlFlow::Continue(())).unwrap().unwrap();
            assert_eq!(prefix.length(), at);
            // Two sequences go on from it in turns, and a third one from what the first one made of it.
            let mut first = engine.fork(&prefix, ids.len()).unwrap();
            let mut second = engine.fork(&prefix, ids.len()).unwrap();
            step(&engine, &mut second, &[3, 4, 5], Rows::None);
            let rest = step(&engine, &mut first, &ids[at..], Rows::All);
            assert_eq!(bits(rest.of(0)), whole[at..], "{name} behind {at}");
            let longer = first.freeze();
            assert_eq!(longer.length(), ids.len());
            let mut third = engine.fork(&longer, 1).unwrap();
            let after = step(&engine, &mut third, &[7], Rows::Last);
            let mut plain = ids.clone();
            plain.push(7);
            assert_eq!(
                bits(after.of(0))[0],
                bits(&all_logits(&engine, &plain))[ids.len()],
                "{name} behind two segments"
            );
        }
    }
}

#[test]
fn several_sequences_in_one_step_give_the_same_bits_as_one_at_a_time() {
    for name in ["llama_b", "qwen2_a", "qwen3_a", "gemma3_b"] {
        let engine = engine(name);
        let prompts: Vec<Vec<u32>> =
            (0..8u32).map(|p| (0..=p * 3).map(|i| (i * 31 + p * 7) % 150 + 4).collect()).collect();
        let alone: Vec<_> =
            prompts.iter().map(|prompt| (bits(&all_logits(&engine, prompt)), greedy(&engine, prompt, 6))).collect();
        for batch in [1, 2, 4, 8] {
            for (group, expected) in prompts.chunks(batch).zip(alone.chunks(batch)) {
                let mut sequences: Vec<Sequence> = group.iter().map(|prompt| fork(&engine, prompt.len() + 6)).collect();
                let mut chunks: Vec<Chunk<'_>> = sequences
                    .iter_mut()
                    .zip(group)
                    .map(|(sequence, prompt)| Chunk { sequence, input: Input::Tokens(prompt), logits: Rows::All })
                    .collect();
                let logits = engine.step(&mut chunks).unwrap();
                let mut answers = vec![Vec::new(); group.len()];
                let mut last: Vec<Vec<f32>> = (0..group.len()).map(|index| logits.last(index).to_vec()).collect();
                for (index, (expected, _)) in expected.iter().enumerate() {
                    assert_eq!(&bits(logits.of(index)), expected, "{name} at batch {batch}");
                }
                for _ in 0..6 {
                    let tokens: Vec<[u32; 1]> = last.iter().map(|logits| [top(logits, 1)[0].0]).collect();
                    answers.iter_mut().zip(&tokens).for_each(|(answer, token)| answer.push(token[0]));
                    let mut chunks: Vec<Chunk<'_>> = sequences
                        .iter_mut()
                        .zip(&tokens)
                        .map(|(sequence, token)| Chunk { sequence, input: Input::Tokens(token), logits: Rows::Last })
                        .collect();
                    let logits = engine.step(&mut chunks).unwrap();
                    last = (0..group.len()).map(|index| logits.last(index).to_vec()).collect();
                }
                for (answer, (_, expected)) in answers.iter().zip(expected) {
                    assert_eq!(answer, expected, "{name} at batch {batch}");
                }
            }
        }
    }
}

#[test]
fn only_the_rows_that_are_asked_for_have_logits() {
    let engine = engine("llama_a");
    let ids = &golden("llama_a").prompts[1].ids;
    let (mut none, mut last, mut empty) = (fork(&engine, 64), fork(&engine, 64), fork(&engine, 64));
    let logits = engine
        .step(&mut [
            Chunk { sequence: &mut none, input: Input::Tokens(ids), logits: Rows::None },
            Chunk { sequence: &mut empty, input: Input::Tokens(&[]), logits: Rows::All },
            Chunk { sequence: &mut last, input: Input::Tokens(ids), logits: Rows::Last },
        ])
        .unwrap();
    assert!(logits.of(0).is_empty() && logits.of(1).is_empty());
    assert_eq!(bits(logits.of(2)), bits(&all_logits(&engine, ids))[ids.len() - 1..]);
    assert_eq!((none.length(), empty.length(), last.length()), (ids.len(), 0, ids.len()));
}

#[test]
fn embeddings_from_elsewhere_are_read_like_tokens() {
    let workspace = LoadOptions::default();
    let source = capjudge::model::weights::Source::folder(&folder("gemma3_b")).unwrap();
    let decoder = source.decoder(&workspace.compute, None).unwrap();
    let ids = &golden("gemma3_b").prompts[1].ids;
    let rows: Tensor = decoder.embedding.forward(ids, &Device::Cpu).unwrap();
    let engine = engine("gemma3_b");
    let mut sequence = fork(&engine, ids.len());
    let visual = Visual::in_line(rows).unwrap();
    let input = Input::Visual { visual: &visual, rows: 0..ids.len(), start: 0 };
    let chunk = Chunk { sequence: &mut sequence, input, logits: Rows::All };
    let logits = engine.step(&mut [chunk]).unwrap();
    assert_eq!(bits(logits.of(0)), bits(&all_logits(&engine, ids)));
}

#[test]
fn a_sequence_that_forgets_goes_on_as_if_it_had_never_known() {
    let engine = engine("qwen3_a");
    let ids = &golden("qwen3_a").prompts[0].ids;
    let mut sequence = fork(&engine, 2 * ids.len());
    step(&engine, &mut sequence, &ids[..10], Rows::None);
    step(&engine, &mut sequence, &[9, 9, 9, 9], Rows::None);
    sequence.truncate(10);
    let rest = step(&engine, &mut sequence, &ids[10..], Rows::All);
    assert_eq!(bits(rest.of(0)), bits(&all_logits(&engine, ids))[10..]);
}

#[test]
fn a_long_sequence_spans_several_segments_and_forgets_across_them() {
    let engine = engine("qwen2_b");
    let ids: Vec<u32> = (0..1300u32).map(|i| i * 37 % 150 + 5).collect();
    let mut cut = fork(&engine, 4000);
    for chunk in ids.chunks(300) {
        step(&engine, &mut cut, chunk, Rows::None);
    }
    let mut whole = fork(&engine, 4000);
    step(&engine, &mut whole, &ids, Rows::None);
    let expected = step(&engine, &mut whole, &[8], Rows::Last);
    assert_eq!(bits(step(&engine, &mut cut, &[8], Rows::Last).of(0)), bits(expected.of(0)));
    // Back into an earlier segment, and forward again.
    cut.truncate(250);
    assert_eq!((cut.length(), cut.room()), (250, 3750));
    step(&engine, &mut cut, &ids[250..], Rows::None);
    assert_eq!(bits(step(&engine, &mut cut, &[8], Rows::Last).of(0)), bits(expected.of(0)));
    cut.truncate(0);
    assert_eq!(cut.length(), 0);
    step(&engine, &mut cut, &ids, Rows::None);
    assert_eq!(bits(step(&engine, &mut cut, &[8], Rows::Last).of(0)), bits(expected.of(0)));
}

#[test]
fn too_much_is_refused() {
    let engine = engine("llama_b");
    let error = engine.fork(&Prefix::default(), engine.context() + 1).unwrap_err();
    assert!(matches!(error, EngineError::Context { .. }), "{error}");
    let mut sequence = fork(&engine, 2);
    let chunk = Chunk { sequence: &mut sequence, input: Input::Tokens(&[1, 2, 3]), logits: Rows::Last };
    let error = engine.step(&mut [chunk]).unwrap_err();
    assert!(matches!(error, EngineError::Room { room: 2, tokens: 3 }), "{error}");
    let chunk = Chunk { sequence: &mut sequence, input: Input::Tokens(&[1_000_000]), logits: Rows::Last };
    assert!(engine.step(&mut [chunk]).unwrap_err().to_string().contains("token 1000000 is not among"));
}

fn model(name: &str) -> Model {
    Model::load(folder(name).to_str().unwrap(), &LoadOptions::default()).unwrap()
}

/// What was generated, the text, and why it ended.
fn run(model: &Model, ids: &[u32], max_tokens: usize, sampling: Sampling) -> (Vec<u32>, String, GenerationEnd) {
    let what = Generation {
        prefix: &Prefix::default(),
        prompt: &[Stretch::Tokens(ids)],
        max_tokens,
        ignore_end: true,
        speculate: false,
    };
    let mut text = String::new();
    let out = generate(&model.engine, &model.tokenizer, &what, &mut Sampler::new(sampling, "a"), &mut |event| {
        if let Generating::Token(_, piece) | Generating::Rest(piece) = event {
            text.push_str(piece);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    (out.tokens, text, out.end)
}

#[test]
fn generation_is_greedy_by_default_and_ends_where_it_should() {
    let model = model("qwen2_a");
    let prompt = &golden("qwen2_a").prompts[0];
    let (tokens, text, end) = run(&model, &prompt.ids, 32, Sampling::default());
    assert_eq!(tokens, prompt.greedy);
    assert_eq!(end, GenerationEnd::Limit);
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| model.tokenizer.bytes(*token).unwrap_or_default()).collect();
    assert_eq!(text, String::from_utf8_lossy(&bytes));
    // Whoever wants no more gets no more.
    let what = Generation {
        prefix: &Prefix::default(),
        prompt: &[Stretch::Tokens(&prompt.ids)],
        max_tokens: 32,
        ignore_end: true,
        speculate: false,
    };
    let mut count = 0;
    let out =
        generate(&model.engine, &model.tokenizer, &what, &mut Sampler::new(Sampling::default(), ""), &mut |event| {
            count += usize::from(matches!(event, Generating::Token(..)));
            if count == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!((out.tokens.len(), out.end), (5, GenerationEnd::Stopped));
    // The context is a limit like any other, and a prompt that fills it is refused.
    let long: Vec<u32> = (0..model.engine.context() as u32 - 3).map(|i| i % 100 + 5).collect();
    let (tokens, _, end) = run(&model, &long, 32, Sampling::default());
    assert_eq!((tokens.len(), end), (3, GenerationEnd::Limit));
}

#[test]
fn an_end_token_ends_the_answer_and_is_no_part_of_it() {
    let model = model("qwen2_a");
    let end = model.tokenizer.end_tokens()[0];
    // Search for a prompt whose answer ends by itself.
    let ended = (0..400u32).find_map(|seed| {
        let ids = [seed % 150 + 5, seed / 3 % 150 + 5];
        let sampling = Sampling { temperature: 3.0, seed: seed.into(), ..Sampling::default() };
        let what = Generation {
            prefix: &Prefix::default(),
            prompt: &[Stretch::Tokens(&ids)],
            max_tokens: 64,
            ignore_end: false,
            speculate: false,
        };
        let out = generate(&model.engine, &model.tokenizer, &what, &mut Sampler::new(sampling, ""), &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        (out.end == GenerationEnd::Token).then_some(out.tokens)
    });
    assert!(!ended.expect("some answer ends by itself").contains(&end));
}

#[test]
fn chance_is_repeatable_and_keeps_to_its_limits() {
    let logits = [1.0, 3.0, 2.0, f32::NEG_INFINITY, 0.0];
    let draw = |sampling: Sampling, name: &str| {
        let mut sampler = Sampler::new(sampling, name);
        (0..2000).map(|_| sampler.sample(&logits).unwrap()).collect::<Vec<u32>>()
    };
    let free = Sampling { temperature: 1.0, ..Sampling::default() };
    assert_eq!(draw(free, "x"), draw(free, "x"));
    assert_ne!(draw(free, "x"), draw(free, "y"));
    assert_ne!(draw(free, "x"), draw(Sampling { seed: 1, ..free }, "x"));
    // The shares are those of the softmax: 1 : e² : e : 0 : 1/e of the total.
    let count = |token: u32, draws: &[u32]| draws.iter().filter(|drawn| **drawn == token).count() as f64 / 2000.0;
    let draws = draw(free, "x");
    for (token, share) in [(0, 0.087), (1, 0.644), (2, 0.237), (3, 0.0), (4, 0.032)] {
        let got = count(token, &draws);
        assert!((got - share).abs() < 0.035, "token {token}: {got} instead of {share}");
    }
    let only = |sampling: Sampling| {
        let mut drawn = draw(sampling, "x");
        drawn.sort_unstable();
        drawn.dedup();
        drawn
    };
    assert_eq!(only(Sampling { top_p: 0.6, ..free }), [1]);
    assert_eq!(only(Sampling { top_p: 0.8, ..free }), [1, 2]);
    assert_eq!(only(Sampling { min_p: 0.3, ..free }), [1, 2]);
    assert_eq!(only(Sampling { temperature: 0.0, ..free }), [1]);
    assert!(matches!(Sampler::new(free, "").sample(&[f32::NAN]), Err(EngineError::NotANumber)));
    assert_eq!(Sampler::new(Sampling::default(), "").sample(&[2.0, 5.0, 5.0]).unwrap(), 1);
}
