//! Video in, exactly the frames that were asked for out.
//!
//! ```text
//!  Video ──▶ Index ──▶ Timeline ──▶ frame numbers ──▶ Runs ──▶ Pictures ──▶ Frames
//!  file      container  timeline     sample            timeline  codec        colour
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | [`container`] | MP4 and Matroska: where the packets are, and when they are shown; decodes nothing |
//! | [`order`], [`timeline`] | presentation order, and the fewest packets that give the wanted frames |
//! | [`codec`] | H.264, HEVC, VP9 and AV1: packets to pictures, and what is wrong with them |
//! | [`picture`], [`colour`] | planar pictures, and the one conversion to RGB that every decoder's pictures go through |
//! | [`builtin`] | those together: the decoder that is always there |
//! | [`ffmpeg`] | the other decoder, for everything else, where the program is installed |
//! | [`images`] | folders and lists of images, GIF, APNG, WebP |
//! | [`sample`] | which frames are shown to a judge |
//! | [`decode`] | which of these ways a file takes |
//! | [`worker`] | all of that in a child process with limits, so that no file can take the main process down |
//! | [`cache`], [`Player`] | frames that were decoded before, and frames for whoever wants some |
//! | [`sheet`] | a picture of the frames, for people |
//!
//! Invariant: a frame is the right one, byte for byte, or the result says that it may not be ([`Fault`]).

pub mod builtin;
pub mod cache;
pub mod codec;
pub mod colour;
pub mod container;
pub mod decode;
mod error;
pub mod ffmpeg;
mod frame;
pub mod images;
mod limits;
pub mod order;
pub mod picture;
mod player;
pub mod sample;
pub mod sheet;
pub mod timeline;
pub mod worker;

pub use cache::Cache;
pub use decode::DecoderChoice;
pub use error::MediaError;
pub use frame::{Fault, Frame, FrameIndex, Frames};
pub use limits::Limits;
pub use player::{Look, Player};
pub use sample::Sampler;
