//! The records of a data set, in the order in which they are judged.
//!
//! Where a judge looks at videos, the records of one video come one after another, so that it is decoded, looked at and
//! read once, however far apart the data set has them. Everything else is judged in the order of the data.
//!
//! Invariant: the order depends on the data, the task and the judge alone, and every line is the one that was surveyed. A
//! verdict about other data than the fingerprint names is never written.

use std::collections::HashMap;
use std::path::Path;

use super::RunError;
use crate::dataset::{DataError, Entry, Limits, Place, RecordReader, Survey};

/// Gives the records one after another.
#[derive(Debug)]
pub struct Records<'a> {
    reader: RecordReader,
    survey: &'a Survey,
    data: &'a Path,
    /// The order, by place in the data; `None` for that of the data.
    order: Option<Vec<u32>>,
    next: usize,
}

impl<'a> Records<'a> {
    /// All records that were surveyed; grouped by video if the survey noted their places.
    pub fn open(data: &'a Path, limits: Limits, survey: &'a Survey) -> Result<Self, RunError> {
        let order = (!survey.places.is_empty()).then(|| by_video(&survey.places));
        Ok(Self { reader: RecordReader::open(data, limits)?, survey, data, order, next: 0 })
    }

    /// The next record; `None` behind the last one.
    pub fn next(&mut self) -> Result<Option<Entry>, RunError> {
        let place = match &self.order {
            None => self.next,
            Some(order) => match order.get(self.next) {
                None => return self.end(),
                Some(place) => {
                    let place = *place as usize;
                    let Place { offset, line, .. } = self.survey.places[place];
                    self.reader.go_to(offset, line)?;
                    place
                }
            },
        };
        let expected = self.survey.line_hashes.get(place);
        let entry = self.reader.next().transpose().map_err(|error| match error {
            DataError::Io { .. } => RunError::Data(error),
            // It was a record when it was surveyed.
            _ => self.changed(),
        })?;
        match (entry, expected) {
            (None, None) => Ok(None),
            (Some(entry), Some(hash)) if entry.hash == *hash => {
                self.next += 1;
                Ok(Some(entry))
            }
            _ => Err(self.changed()),
        }
    }

    /// Behind the last record: a file that grew is another one.
    fn end(&self) -> Result<Option<Entry>, RunError> {
        if self.reader.bytes()? == self.survey.bytes { Ok(None) } else { Err(self.changed()) }
    }

    fn changed(&self) -> RunError {
        RunError::DataChanged(self.data.to_owned())
    }
}

/// Records by their video, in the order in which each video comes first; those without one stay by themselves.
fn by_video(places: &[Place]) -> Vec<u32> {
    let mut first: HashMap<u64, u32> = HashMap::new();
    let mut order: Vec<(u32, u32)> = Vec::with_capacity(places.len());
    for (at, place) in (0u32..).zip(places) {
        let group = place.video.map_or(at, |video| *first.entry(video).or_insert(at));
        order.push((group, at));
    }
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn videos_stay_together_in_the_order_of_their_first_record() {
        let place = |video| Place { offset: 0, line: 0, video };
        let videos = [Some(7), Some(3), None, Some(7), Some(9), None, Some(3), Some(7)];
        assert_eq!(by_video(&videos.map(place)), [0, 3, 7, 1, 6, 2, 4, 5]);
        assert!(by_video(&[]).is_empty());
    }
}
