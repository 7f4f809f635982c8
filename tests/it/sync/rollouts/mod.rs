//! Rollouts on a real hub, with two real agents and many simulated ones, or with agents that the
//! test plays.

mod decision_groups;
mod failure;
mod leaders;
mod members;
mod operators;
mod preemption;
mod restore;
mod simulated_agents;
mod stage;
mod strategies;
mod waves;
mod week;
