//! Signatures of file systems, swap space, encryption, volume managers and partition tables on the medium:
//! data of others that is not in use at the moment.
//!
//! The signatures are those of libblkid, through the `wipefs` tool of util-linux. It lists every signature
//! with its offset, including damaged ones, whereas `blkid -p` stops at the first and refuses ambiguous
//! results. It is also the tool that removes signatures, so that the ones that this module reports are the
//! ones that `wipefs -a` removes.
//!
//! Invariants: a target is free only if `wipefs` succeeded and listed nothing; if it is missing or fails, the
//! target is refused. The tool gets the open descriptor rather than the path, so it examines what will be
//! written. It writes nothing: without `--all` or `--offset` it opens for reading. A signature in a sector
//! that holds Skylight's own pattern does not count, so that a target can be probed again.
//!
//! Sources: wipefs(8), section OPTIONS; util-linux, `misc-utils/wipefs.c` and `libblkid/src/superblocks`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TOOL: &str = "wipefs";
/// Where distributions install it. Searched before `PATH`, which often lacks the system directories.
const TOOL_DIRECTORIES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
/// Standard input of the tool, as a path.
const STDIN_PATH: &str = "/proc/self/fd/0";

const OWN_PATTERN: &[u8] = b"SKYLIGHT";
const SECTOR_BYTES: usize = 512;
/// Alignment of memory, offsets and sizes for direct I/O; no drive has larger logical blocks.
const ALIGNMENT: usize = 4096;

/// One line of the tool output.
#[derive(Debug, PartialEq, Eq)]
struct Signature {
    offset: u64,
    /// A description.
    description: String,
}

/// Finds the first foreign signature on an open file or device, and describes it.
///
/// # Errors
/// When the tool is missing or fails, or the target cannot be read; the message says which, and the mend.
pub fn find(target: &File) -> io::Result<Option<String>> {
    find_with(&tool()?, target)
}

fn find_with(tool: &Path, target: &File) -> io::Result<Option<String>> {
    for signature in parse_list(&list(tool, target)?)? {
        if !is_own(target, signature.offset)? {
            return Ok(Some(signature.description));
        }
    }
    Ok(None)
}

fn tool() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    tool_in(TOOL_DIRECTORIES.into_iter().map(PathBuf::from).chain(std::env::split_paths(&path)))
}

fn tool_in(folders: impl Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
    let mut candidates = folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(TOOL));
    candidates.find(|candidate| candidate.is_file()).ok_or_else(|| {
        let text = format!("{TOOL}, which detects file systems, is not installed; install util-linux");
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// Runs the tool: `offset,type,usage`, one line per signature.
fn list(tool: &Path, target: &File) -> io::Result<String> {
    let output = Command::new(tool)
        .args(["--noheadings", "--parsable", "--output", "OFFSET,TYPE,USAGE", STDIN_PATH])
        // The output is parsed, so it must not be translated; no variable of the caller changes what the tool
        // searches for.
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(Stdio::from(target.try_clone()?))
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run {}: {error}", tool.display())))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let first = words.lines().next().unwrap_or("no reason given");
        return Err(io::Error::other(format!("{TOOL} failed ({}): {first}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|_| unparsable(OsStr::new("bytes that are not UTF-8")))
}

fn parse_list(list: &str) -> io::Result<Vec<Signature>> {
    let lines = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| parse_line(line).ok_or_else(|| unparsable(OsStr::new(line)))).collect()
}

fn parse_line(line: &str) -> Option<Signature> {
    let mut columns = line.split(',');
    let (offset, kind, usage) = (columns.next()?, columns.next()?, columns.next()?);
    let offset = u64::from_str_radix(offset.strip_prefix("0x")?, 16).ok()?;
    let usage = match usage {
        "filesystem" => "a file system",
        "partition-table" => "a partition table",
        "raid" => "a member of a RAID or volume group",
        "crypto" => "an encrypted volume",
        _ => "somebody's data",
    };
    let kind = if kind.is_empty() { "unnamed" } else { kind };
    Some(Signature { offset, description: format!("{usage} ({kind})") })
}

fn unparsable(what: &OsStr) -> io::Error {
    io::Error::other(format!("cannot parse the output of {TOOL}: {what:?}; install util-linux 2.31 or newer"))
}

/// Whether an earlier probe wrote the sector around an offset.
fn is_own(target: &File, offset: u64) -> io::Result<bool> {
    let mut buffer = vec![0; 2 * ALIGNMENT];
    let from = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    let block = &mut buffer[from..from + ALIGNMENT];
    let start = offset / ALIGNMENT as u64 * ALIGNMENT as u64;
    // The last block may be short; the unread part stays zero, which is not the pattern.
    target.read_at(block, start)?;
    let at = (offset - start) as usize / SECTOR_BYTES * SECTOR_BYTES;
    Ok(block[at..].starts_with(OWN_PATTERN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_sysfs::Tree;

    const SIZE_BYTES: u64 = 64 << 20;
    const EXT2_AT: u64 = 1080;
    const EXT2_MAGIC: &[u8] = &[0x53, 0xef];

    fn image(tree: &Tree) -> io::Result<File> {
        let path = tree.file("disk.img", "");
        let file = File::options().read(true).write(true).open(path)?;
        file.set_len(SIZE_BYTES)?;
        Ok(file)
    }

    #[test]
    fn a_signature_counts_unless_a_probe_wrote_its_sector() -> io::Result<()> {
        let tree = Tree::new("signatures");
        let file = image(&tree)?;
        assert_eq!(find(&file)?, None);
        file.write_all_at(EXT2_MAGIC, EXT2_AT)?;
        assert_eq!(find(&file)?, Some("a file system (ext2)".into()));
        file.write_all_at(OWN_PATTERN, 1024)?;
        assert_eq!(find(&file)?, None, "an earlier probe wrote this sector");
        Ok(())
    }

    #[test]
    fn a_foreign_signature_counts_beside_the_pattern_of_a_probe() -> io::Result<()> {
        let tree = Tree::new("beside");
        let file = image(&tree)?;
        file.write_all_at(EXT2_MAGIC, EXT2_AT)?;
        file.write_all_at(OWN_PATTERN, 1024)?;
        file.write_all_at(b"_BHRfS_M", 65_600)?;
        assert_eq!(find(&file)?, Some("a file system (btrfs)".into()));
        Ok(())
    }

    #[test]
    fn a_tool_that_is_missing_fails_or_prints_nonsense_is_an_error() -> io::Result<()> {
        let tree = Tree::new("tools");
        let file = image(&tree)?;
        let missing = tool_in([tree.path("none"), PathBuf::from("relative")].into_iter());
        assert!(missing.is_err_and(|error| error.to_string().contains("install util-linux")));
        for (tool, part) in
            [("/bin/false", "no reason given"), ("/bin/echo", "cannot parse"), ("/dev/null", "cannot run")]
        {
            let line =
                find_with(Path::new(tool), &file).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(line.contains(part), "{line:?} does not say {part:?}");
            assert!(!line.contains('\n'), "{line:?}");
        }
        Ok(())
    }

    #[test]
    fn signatures_are_described() -> io::Result<()> {
        let list = "# offset,type,usage\n0x200,gpt,partition-table\n0x218,LVM2_member,raid\n0x0,crypto_LUKS,crypto\n\
                    0xff6,swap,other\n0x0,,\n";
        let words: Vec<_> = parse_list(list)?.into_iter().map(|signature| signature.description).collect();
        assert_eq!(
            words,
            [
                "a partition table (gpt)",
                "a member of a RAID or volume group (LVM2_member)",
                "an encrypted volume (crypto_LUKS)",
                "somebody's data (swap)",
                "somebody's data (unnamed)",
            ]
        );
        Ok(())
    }
}
