//! Whole files or none.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes a file by way of a temporary one beside it and a rename: a reader sees the old file or the new one, whole,
/// also after a power cut.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    set_ordinary_permissions(file.as_file())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_folder(folder)
}

/// Makes new names in a folder survive a power cut.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    // Only Unix lets a folder be opened and synced.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { fs::metadata(folder).map(|_| ()) }
}

/// Temporary files are private; results are for whoever may read the folder.
#[cfg(unix)]
fn set_ordinary_permissions(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn set_ordinary_permissions(_file: &File) -> io::Result<()> {
    Ok(())
}
