//! What a `counts` answer comes to: its numbers, or the first reason why there are none.

use std::collections::BTreeMap;

use super::{CountsReader, Finals};
use crate::answer::{CountFrom, Finish, Reason, Unscored};

impl CountsReader<'_> {
    pub(super) fn outcome(
        &self,
        finish: Finish,
        labelled: Option<&BTreeMap<String, u32>>,
    ) -> Result<BTreeMap<String, u32>, Unscored> {
        if finish == Finish::Length && !self.done {
            return Err(truncated("the token limit ended the answer before the last metric", self.offset));
        }
        if self.thinking {
            return Err(truncated("the answer ends inside a thought", self.offset));
        }
        if self.blank {
            return Err(Unscored::new(Reason::EmptyAnswer, "the answer is empty"));
        }
        if let Some(span) = &self.echo {
            let detail = "the answer repeats the template where a decision should stand";
            return Err(Unscored::at(Reason::TemplateEcho, detail, span.clone()));
        }
        if self.count_from == CountFrom::Labels {
            return labelled.cloned().ok_or_else(incomplete);
        }
        let Some(finals) = self.chosen() else {
            return Err(self.nothing_stated());
        };
        let counts = self.stated_counts(finals)?;
        self.check_bounds(&counts, finals)?;
        if self.count_from == CountFrom::Agreeing {
            let labelled = labelled.ok_or_else(incomplete)?;
            if labelled != &counts {
                let detail = format!("stated {}, labelled {}", list(&counts), list(labelled));
                return Err(Unscored::new(Reason::LabelsDisagree, detail));
            }
        }
        Ok(counts)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.format.metrics.iter().map(|metric| metric.spec.name.as_str())
    }

    fn nothing_stated(&self) -> Unscored {
        let quoted = self.quoted.values.iter().flatten().next();
        if let Some(stated) = quoted {
            let detail = "the only verdict stands inside a quotation";
            return Unscored::at(Reason::OnlyQuoted, detail, stated.span.clone());
        }
        let names: Vec<&str> = self.names().collect();
        Unscored::new(Reason::MissingMetric, format!("the answer does not state {}", names.join(", ")))
    }

    fn stated_counts(&self, finals: &Finals) -> Result<BTreeMap<String, u32>, Unscored> {
        let mut counts = BTreeMap::new();
        let mut contradiction = None;
        for (index, metric) in self.format.metrics.iter().enumerate() {
            let name = &metric.spec.name;
            let Some(stated) = finals.get(index) else {
                let detail = format!("the final section does not state {name}");
                return Err(Unscored::new(Reason::MissingMetric, detail));
            };
            match stated.value {
                _ if stated.contradicted => {
                    let detail = format!("{name} is stated twice with different values");
                    contradiction = Some(Unscored::at(Reason::Contradictory, detail, stated.span.clone()));
                }
                Ok(value) => {
                    counts.insert(name.clone(), value);
                }
                Err(reason) => {
                    let detail = format!("the value of {name} cannot be read as one whole number");
                    return Err(Unscored::at(reason, detail, stated.span.clone()));
                }
            }
        }
        contradiction.map_or(Ok(counts), Err)
    }

    fn check_bounds(&self, counts: &BTreeMap<String, u32>, finals: &Finals) -> Result<(), Unscored> {
        for (index, metric) in self.format.metrics.iter().enumerate() {
            let name = &metric.spec.name;
            for bound in &metric.spec.at_most {
                let limit = match bound.as_str() {
                    "listed_events" => self.listed.count(),
                    other => counts.get(other).copied(),
                };
                if let (Some(limit), Some(value)) = (limit, counts.get(name))
                    && *value > limit
                {
                    let what = bound.replace('_', " ");
                    let detail = format!("{name} is {value}, but {what} is {limit}");
                    let span = finals.get(index).map(|stated| stated.span.clone()).unwrap_or_default();
                    return Err(Unscored::at(Reason::Contradictory, detail, span));
                }
            }
        }
        Ok(())
    }
}

fn truncated(detail: &str, end: usize) -> Unscored {
    Unscored::at(Reason::Truncated, detail, end..end)
}

fn incomplete() -> Unscored {
    Unscored::new(Reason::LabelsIncomplete, "not every listed event has a label")
}

fn list(counts: &BTreeMap<String, u32>) -> String {
    counts.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}
