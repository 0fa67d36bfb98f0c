//! Setting up a server.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::net::TcpListener;

use super::{
    auth::{AccessRule, Auth},
    engine::{Engine, Shared},
    server::ApiServer,
};
use crate::{
    core::{Core, CoreOptions},
    faults::{Fault, FaultyCore, Profile},
};

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not free.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// A server to be set up; begins with [`ApiServer::builder`].
#[derive(Debug)]
pub struct Builder {
    options: CoreOptions,
    address: SocketAddr,
    seed: u64,
    profile: Profile,
    faults: Vec<Fault>,
    auth: Auth,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            options: CoreOptions::default(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            seed: 0,
            profile: Profile::None,
            faults: Vec::new(),
            auth: Auth::default(),
        }
    }
}

impl Builder {
    /// The options of the core.
    #[must_use]
    pub fn core(mut self, options: CoreOptions) -> Self {
        self.options = options;
        self
    }

    /// Where all chance comes from: uids, and which requests faults hit.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self.options.seed = seed;
        self
    }

    /// Where to listen; by default on a free port of the loopback interface.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// A fault that is in force from the start.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// A mixture of faults.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// The bearer token that callers must have; without one, everyone is an administrator.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.auth.token = Some(token.into());
        self
    }

    /// Something that is denied with 403.
    #[must_use]
    pub fn deny(mut self, rule: AccessRule) -> Self {
        self.auth.deny.push(rule);
        self
    }

    /// Starts the server on the present tokio runtime.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound.
    pub async fn start(self) -> Result<ApiServer, StartError> {
        let listen = |source| StartError::Listen { address: self.address, source };
        let listener = TcpListener::bind(self.address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let epoch = self.options.epoch;
        let mut layer = FaultyCore::new(Core::new(self.options), self.seed);
        layer.faults_mut().set_profile(self.profile);
        for fault in self.faults {
            layer.faults_mut().add(fault);
        }
        let shared = Shared::new(Engine::new(layer, self.auth, self.seed), epoch);
        Ok(ApiServer::run(listener, address, Arc::new(shared)))
    }
}
