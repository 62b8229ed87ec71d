//! Who keeps a model's answers to the format of a task.
//!
//! Invariant: a grammar is made once for a task. A task that cannot be guided is refused before any record is judged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{JudgeError, Question};
use crate::engine::Guide;
use crate::guide::{Bounds, Grammar, GrammarError};
use crate::model::{Model, ModelPrompt};
use crate::task::Task;

/// Makes guides for answers.
pub trait Guides: std::fmt::Debug {
    /// Whether answers to a task can be guided; else why not.
    fn check(&self, task: &Task, model: &Model) -> Result<(), JudgeError> {
        let _ = (task, model);
        Ok(())
    }

    /// A guide for the answer to a question; `None` if it is to be answered freely.
    fn guide(
        &self,
        question: &Question<'_>,
        model: &Model,
        prompt: &ModelPrompt<'_>,
        max_tokens: usize,
    ) -> Result<Option<Box<dyn Guide>>, JudgeError>;
}

/// Decoders with fewer parameters are guided unless the user says otherwise: larger ones keep to a format by themselves.
pub const GUIDED_BELOW: u64 = 4_000_000_000;

/// Guides from the answer formats of tasks.
#[derive(Debug, Default)]
pub struct TaskGuides {
    grammars: RefCell<BTreeMap<String, Rc<Grammar>>>,
}

impl TaskGuides {
    fn grammar(&self, task: &Task, model: &Model) -> Result<Rc<Grammar>, JudgeError> {
        if let Some(grammar) = self.grammars.borrow().get(&task.name) {
            return Ok(Rc::clone(grammar));
        }
        let grammar = Rc::new(Grammar::new(task, &model.tokenizer).map_err(unfit)?);
        self.grammars.borrow_mut().insert(task.name.clone(), Rc::clone(&grammar));
        Ok(grammar)
    }
}

impl Guides for TaskGuides {
    fn check(&self, task: &Task, model: &Model) -> Result<(), JudgeError> {
        self.grammar(task, model).map(|_| ())
    }

    fn guide(
        &self,
        question: &Question<'_>,
        model: &Model,
        prompt: &ModelPrompt<'_>,
        max_tokens: usize,
    ) -> Result<Option<Box<dyn Guide>>, JudgeError> {
        let whole = |count: usize| Some(u32::try_from(count).unwrap_or(u32::MAX));
        let bounds = Bounds {
            events: whole(question.events),
            inserted: whole(question.inserted),
            thought: prompt.opens_thought.clone(),
            max_tokens,
        };
        self.grammar(question.task, model)?.guide(&bounds).map(Some).map_err(unfit)
    }
}

fn unfit(error: GrammarError) -> JudgeError {
    let error = match error {
        GrammarError::Tokenizer(error) => format!("answers cannot be guided: {error}"),
        error => error.to_string(),
    };
    JudgeError::Unfit(format!("{error}; --free judges without a guide"))
}
