//! Installs a server's program where that can be done unasked.

use std::path::Path;

use anyhow::{Context, bail};
use mq_testkit::servers::programs;
use xshell::{Shell, cmd};

use super::server::Service;

/// Has the programs of the service installed; with Postgres a pooler before it.
pub(super) fn ensure(shell: &Shell, service: Service) -> anyhow::Result<()> {
    let programs = match service {
        Service::Redis | Service::RedisDurable | Service::RedisCluster => {
            vec![(programs::redis(), "redis-server")]
        }
        Service::Postgres => vec![
            (programs::postgres(), "postgresql"),
            (programs::pgbouncer(), "pgbouncer"),
        ],
    };
    let variable = service.variable();
    for (found, package) in programs {
        let Err(missing) = found else {
            continue;
        };
        if !can_install(shell) {
            bail!("{missing}, or name a server of your own in {variable}, or see compose.yaml");
        }
        eprintln!("{missing}\ninstalling it");
        install(shell, package).with_context(|| {
            format!("cannot install {package}; name a server of your own in {variable} instead")
        })?;
    }
    Ok(())
}

/// Whether this is Debian or its kin, and root asks.
fn can_install(shell: &Shell) -> bool {
    let root = cmd!(shell, "id -u").quiet().read();
    let apt = cmd!(shell, "apt-get --version").quiet().ignore_stdout();
    root.is_ok_and(|id| id == "0") && apt.run().is_ok()
}

fn install(shell: &Shell, package: &str) -> anyhow::Result<()> {
    // Run level 1 is the one in which Debian's packages do not start services.
    let _run_level = shell.push_env("RUNLEVEL", "1");
    let _questions = shell.push_env("DEBIAN_FRONTEND", "noninteractive");
    cmd!(shell, "apt-get update --quiet").run()?;
    cmd!(
        shell,
        "apt-get install --quiet --yes --no-install-recommends {package}"
    )
    .run()?;
    // systemd knows no run levels. Nobody uses a service that came just now.
    if Path::new("/run/systemd/system").exists() {
        cmd!(shell, "systemctl disable --now {package}").run()?;
    }
    Ok(())
}
