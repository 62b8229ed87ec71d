//! What decides the bytes of a run.
//!
//! Invariant: two runs with the same fingerprint write the same verdicts. Whatever can change a verdict is in it, and
//! whatever cannot (paths, progress, the allowed share of unscored records) is not.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Plan;
use crate::answer::CountFrom;
use crate::dataset::sha256_text;
use crate::judge::Identity;
use crate::media::Look;
use crate::task::TaskSpec;

/// What decides the bytes of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// The version of capjudge.
    pub version: String,
    /// The task's name.
    pub task: String,
    /// SHA-256 of the prompt template.
    pub prompt_sha256: String,
    /// SHA-256 of the task's declaration.
    pub declaration_sha256: String,
    /// SHA-256 of the data set.
    pub data_sha256: String,
    /// SHA-256 over the files that decide the judge's answers.
    pub judge_sha256: String,
    /// What else decides them, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub judge_settings: BTreeMap<String, String>,
    /// How videos are looked at, by name; empty if nobody looks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub frame_settings: BTreeMap<String, String>,
    /// Where counts come from.
    pub count_from: CountFrom,
}

impl Fingerprint {
    /// The fingerprint of a run with this plan, data and judge; `look` where videos are looked at.
    pub fn new(plan: &Plan<'_>, data_sha256: &str, judge: &Identity, look: Option<&Look>) -> Self {
        let task = plan.task;
        let settings = look.map(Look::settings).unwrap_or_default();
        let mut judge_settings = judge.settings.clone();
        if !plan.reason {
            judge_settings.insert("reason".to_owned(), "not waited for".to_owned());
        }
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            task: task.name.clone(),
            prompt_sha256: Self::prompt(task.template.text()),
            declaration_sha256: Self::declaration(&task.spec),
            data_sha256: data_sha256.to_owned(),
            judge_sha256: judge.sha256.clone(),
            judge_settings,
            frame_settings: settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            count_from: plan.count_from,
        }
    }

    /// SHA-256 of a prompt template.
    pub fn prompt(template: &str) -> String {
        sha256_text(template)
    }

    /// SHA-256 of a task's declaration: of what it says, whatever its comments and the order of its keys.
    pub fn declaration(spec: &TaskSpec) -> String {
        // `Value` has no failure of its own here: a declaration is strings, numbers and lists.
        let value = serde_json::to_value(spec).unwrap_or_default();
        sha256_text(&value.to_string())
    }

    /// The first thing that differs: what it is, what it was here, and what it is there.
    pub fn difference(&self, now: &Self) -> Option<(String, String, String)> {
        let fields = [
            ("version of capjudge (version)", self.version.clone(), now.version.clone()),
            ("task (task)", self.task.clone(), now.task.clone()),
            ("prompt (prompt_sha256)", self.prompt_sha256.clone(), now.prompt_sha256.clone()),
            ("task declaration (declaration_sha256)", self.declaration_sha256.clone(), now.declaration_sha256.clone()),
            ("data set (data_sha256)", self.data_sha256.clone(), now.data_sha256.clone()),
            ("judge (judge_sha256)", self.judge_sha256.clone(), now.judge_sha256.clone()),
            ("--count-from (count_from)", name(self.count_from), name(now.count_from)),
        ];
        let first = fields.into_iter().find(|(_, was, now)| was != now);
        let settings = |what, was, now| setting_difference(what, was, now);
        first
            .map(|(name, was, now)| (name.to_owned(), was, now))
            .or_else(|| settings("judge", &self.judge_settings, &now.judge_settings))
            .or_else(|| settings("frames", &self.frame_settings, &now.frame_settings))
    }
}

/// The first setting that differs.
fn setting_difference(
    what: &str,
    was: &BTreeMap<String, String>,
    is: &BTreeMap<String, String>,
) -> Option<(String, String, String)> {
    // What both have comes first: a setting that only one has is a consequence of another.
    let only_one = was.keys().filter(|name| !is.contains_key(*name));
    let names = is.keys().filter(|name| was.contains_key(*name)).chain(only_one).chain(is.keys());
    let value = |of: &BTreeMap<String, String>, name: &str| of.get(name).cloned().unwrap_or("not set".to_owned());
    let name = names.into_iter().find(|name| value(was, name) != value(is, name))?;
    Some((format!("setting of the {what} ({name})"), value(was, name), value(is, name)))
}

fn name(count_from: CountFrom) -> String {
    format!("{count_from:?}").to_lowercase()
}
