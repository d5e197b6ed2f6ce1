//! The cases that decide whether a store keeps the contract.
