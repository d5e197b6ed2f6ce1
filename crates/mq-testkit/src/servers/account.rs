//! The account that Postgres runs under, which must not be root's.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::ServerError;

/// Accounts that may be there for it, the most fitting first.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// A user and its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    user: u32,
    group: u32,
}

/// Whom to become before a server starts that refuses to run as root; nobody if
/// this process is not root's.
pub(super) fn unprivileged() -> Result<Option<Account>, ServerError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    CANDIDATES
        .into_iter()
        .find_map(|name| {
            Some(Account {
                user: number("-u", name)?,
                group: number("-g", name)?,
            })
        })
        .map(Some)
        .ok_or_else(|| {
            ServerError::new(format!(
                "Postgres does not run as root, and there is none of the accounts {}: \
                 create one, or run as another user",
                CANDIDATES.join(", ")
            ))
        })
}

fn number(which: &str, name: &str) -> Option<u32> {
    let output = Command::new("id")
        .args([which, name])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

impl Account {
    /// Has the command run under this account.
    pub(super) fn run(self, command: &mut Command) {
        command.uid(self.user).gid(self.group);
    }

    /// Makes this account the owner of the folder; whether it can reach it then.
    pub(super) fn take(self, folder: &Path) -> Result<bool, ServerError> {
        std::os::unix::fs::chown(folder, Some(self.user), Some(self.group)).map_err(
            ServerError::during(format_args!(
                "cannot change the owner of {}",
                folder.display()
            )),
        )?;
        let mut test = Command::new("test");
        test.arg("-w").arg(folder).current_dir("/");
        self.run(&mut test);
        Ok(test.status().is_ok_and(|status| status.success()))
    }
}
