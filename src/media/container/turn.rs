//! From a display matrix to quarter turns.

use super::Turn;

impl Turn {
    /// What ffmpeg makes of a display matrix (`a b` over `c d`), or `None` for an angle that is no quarter turn.
    pub(super) fn from_matrix([a, b, c, d]: [f64; 4]) -> Option<Self> {
        let turned = |quarters, mirrored| Some(Turn { quarters, mirrored });
        let (wide, high) = (a.hypot(c), b.hypot(d));
        if !(wide > 0.0 && high > 0.0) {
            // No angle can be had from it: the picture is shown as it is.
            return turned(0, false);
        }
        let degrees = (b / high).atan2(a / wide).to_degrees().round().rem_euclid(360.0);
        match degrees {
            90.0 => turned(if c > 0.0 { 3 } else { 1 }, c > 0.0),
            180.0 => turned(if d < 0.0 { 2 } else { 0 }, d >= 0.0),
            270.0 => turned(if c < 0.0 { 1 } else { 3 }, c < 0.0),
            0.0 => turned(if d < 0.0 { 2 } else { 0 }, d < 0.0),
            _ => None,
        }
    }
}
