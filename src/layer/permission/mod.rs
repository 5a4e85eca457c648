//! Decides whether a tool runs.

mod approver;
mod argument;
mod channel;
mod decide;
mod decided;
mod engine;
mod explain;
mod handle;
mod judge;
mod layer;
mod number;
mod path;
mod policy;
mod reentry;
mod refusals;
mod rule;
mod rules;
mod shell;
mod show;
mod terminal;
mod truth;

pub use self::{
    approver::{Approval, ApprovalRequest, Approver, ApproverError, Decision, Remember, Scope},
    argument::ArgumentRule,
    channel::{ChannelApprover, Question, Questions, channel},
    decided::{Decided, DecidedBy},
    engine::{Opinion, PolicyEngine},
    explain::{Considered, Explanation, Standing},
    handle::PermissionHandle,
    layer::{PermissionLayer, PermissionService},
    policy::{Listed, OnSwap, Permission},
    reentry::Reentry,
    refusals::DenialPayload,
    rule::{Effect, Example, PrincipalRule, Rule},
    rules::{Rules, RulesError, UnmatchedRule},
    shell::ShellPattern,
    terminal::TerminalApprover,
    truth::{Missing, Truth},
};
