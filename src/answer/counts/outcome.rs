//! What a `counts` answer comes to: its numbers, or the first reason why there are none.

use std::collections::BTreeMap;

use super::CountsReader;
use super::finals::{Chosen, Finals};
use crate::answer::{CountFrom, Finish, Reason, Unscored};

impl CountsReader<'_> {
    pub(super) fn outcome(
        &self,
        finish: Finish,
        chosen: Chosen<'_>,
        labelled: Option<&BTreeMap<String, u32>>,
    ) -> Result<BTreeMap<String, u32>, Unscored> {
        let end = self.offset..self.offset;
        if finish == Finish::Length && !self.done {
            let detail = "the token limit ended the answer before the last metric";
            return Err(Unscored::at(Reason::Truncated, detail, end));
        }
        if self.thinking {
            return Err(Unscored::at(Reason::Truncated, "the answer ends inside a thought", end));
        }
        if self.blank {
            return Err(Unscored::at(Reason::EmptyAnswer, "the answer is empty", 0..self.offset));
        }
        if let Some(span) = &self.echo {
            let detail = "the answer repeats the template where a decision should stand";
            return Err(Unscored::at(Reason::TemplateEcho, detail, span.clone()));
        }
        let incomplete =
            || Unscored::at(Reason::LabelsIncomplete, "not every listed event has a label", 0..self.offset);
        if self.count_from == CountFrom::Labels {
            return labelled.cloned().ok_or_else(incomplete);
        }
        let finals = self.section_that_counts(chosen)?;
        let counts = self.stated_counts(finals)?;
        self.check_bounds(&counts, finals)?;
        if self.count_from == CountFrom::Agreeing {
            let labelled = labelled.ok_or_else(incomplete)?;
            if labelled != &counts {
                let detail = format!("stated {}, labelled {}", list(&counts), list(labelled));
                return Err(Unscored::at(Reason::LabelsDisagree, detail, finals.span().unwrap_or_default()));
            }
        }
        Ok(counts)
    }

    fn section_that_counts<'f>(&self, chosen: Chosen<'f>) -> Result<&'f Finals, Unscored> {
        match chosen {
            Chosen::One(finals) => Ok(finals),
            Chosen::Quoted(finals) => {
                let detail = "the only verdict may be a quotation of the input, and the labels do not confirm it";
                Err(Unscored::at(Reason::OnlyQuoted, detail, finals.span().unwrap_or_default()))
            }
            Chosen::Nothing => {
                let names: Vec<&str> = self.names().collect();
                let detail = format!("the answer does not state {}", names.join(", "));
                Err(Unscored::at(Reason::MissingMetric, detail, 0..self.offset))
            }
        }
    }

    fn stated_counts(&self, finals: &Finals) -> Result<BTreeMap<String, u32>, Unscored> {
        let mut counts = BTreeMap::new();
        let mut contradiction = None;
        for (index, name) in self.names().enumerate() {
            let Some(stated) = finals.get(index) else {
                let detail = format!("the final section does not state {name}");
                return Err(Unscored::at(Reason::MissingMetric, detail, finals.span().unwrap_or_default()));
            };
            match stated.value {
                _ if stated.contradicted => {
                    let detail = format!("{name} is stated twice with different values");
                    contradiction = Some(Unscored::at(Reason::Contradictory, detail, stated.span.clone()));
                }
                Ok(value) => {
                    counts.insert(name.to_owned(), value);
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
                    let what = if bound == "listed_events" { "the number of listed events" } else { bound };
                    let detail = format!("{name} is {value}, but {what} is {limit}");
                    let span = finals.get(index).map(|stated| stated.span.clone()).unwrap_or_default();
                    return Err(Unscored::at(Reason::Contradictory, detail, span));
                }
            }
        }
        Ok(())
    }
}

fn list(counts: &BTreeMap<String, u32>) -> String {
    counts.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}
