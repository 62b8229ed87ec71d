//! Whole files or none.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// How the names of temporary files start, so that what a killed process left behind can be told from the user's files.
pub const TEMPORARY: &str = ".capjudge-tmp-";

/// Writes a file by way of a temporary one beside it and a rename: a reader sees the old file or the new one, whole,
/// also after a power cut.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        let what = format!("the folder {} does not exist", folder.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY);
    // Temporary files are private by default; results are for whoever the user's umask says.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_folder(folder)
}

/// Writes a file as [`write_atomic`] does, unless it has these bytes already.
pub fn write_if_other(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) { Ok(()) } else { write_atomic(path, bytes) }
}

/// Makes a folder with all that leads to it, so that it survives a power cut.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    fs::create_dir_all(path)?;
    missing.iter().try_for_each(|folder| sync_folder(folder_of(folder)))
}

/// Makes new names in a folder survive a power cut.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Only Unix lets a folder be opened and synced.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
