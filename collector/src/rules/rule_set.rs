//! The rules of all objects of one source. Changing one of them costs time only for its own names.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::api::core::v1::ObjectReference;
use proto::api::DnsName;
use runtime::store::ObjectKey;

use super::{
    Overview, RetentionPolicy, RuleSource,
    rule_object::RuleObject,
    sources::policy_tenant,
    users::Users,
    wanted::{ChangedUses, WantedName, replace},
};
use crate::rules::interner::Interner;
use names::{Namespace, Namespaces};

/// The most names of a namespace that are read: twice as many as count, so that a change of the rules needs no room twice.
const MAX_NAMES: usize = 20_000;

#[derive(Debug, Default)]
pub(super) struct Rules {
    retention: RetentionPolicy,
    /// Assigns numbers to namespaces.
    namespaces: Namespaces,
    /// Whether the objects are in no namespace, so that their names are counted for policies.
    are_cluster_wide: bool,
    rule_objects: BTreeMap<ObjectKey, Arc<RuleObject>>,
    /// The names in the objects of each namespace, each as often as it is there.
    names_of: HashMap<String, usize>,
    /// The number of objects that are left out.
    pub(super) left_out: usize,
    /// The users of each name.
    users: HashMap<DnsName, Users>,
    /// The changes for the next [`Rules::take_changed_uses`].
    changed: Changed,
    /// The number of rules without effect because of their names.
    pub(super) refused: usize,
}

/// Changes since the last call.
#[derive(Debug, Default)]
struct Changed {
    names: BTreeSet<DnsName>,
    /// Objects that were added, changed or removed.
    rule_objects: BTreeSet<ObjectKey>,
    /// The tenants of their names.
    tenants: BTreeSet<Namespace>,
    /// Those of them whose faults changed.
    faults: BTreeSet<ObjectKey>,
}

impl Rules {
    pub(super) fn new(retention: RetentionPolicy, namespaces: Namespaces) -> Self {
        Self {
            retention,
            namespaces,
            ..Self::default()
        }
    }

    /// For the objects of one source.
    pub(super) fn of<K: RuleSource>(retention: RetentionPolicy, namespaces: Namespaces) -> Self {
        Self {
            are_cluster_wide: !K::IS_NAMESPACED,
            ..Self::new(retention, namespaces)
        }
    }

    pub(super) fn apply<K: RuleSource>(&mut self, object: &K) {
        let key = ObjectKey::of(object);
        let tenant = if K::IS_NAMESPACED {
            key.namespace.clone()
        } else {
            policy_tenant(object.policy().unwrap_or_default())
        };
        let tenant = self.namespaces.number(&tenant);
        let mut rule_object = object.rules(tenant, &self.retention);
        if !self.has_room(&rule_object) {
            rule_object.leave_out();
        }
        // Most events change a status only.
        let known = self.rule_objects.get(&key);
        if known.is_none_or(|known| **known != rule_object) {
            self.replace(Arc::new(rule_object));
        }
    }

    /// Whether the names of the object fit into its namespace. One that is left out comes in when it changes.
    fn has_room(&self, rule_object: &RuleObject) -> bool {
        let RuleObject { key, size, .. } = rule_object;
        let own = self.get(key).map_or(0, RuleObject::names_read);
        let all = self.names_of.get(&key.namespace).copied().unwrap_or(0);
        self.are_cluster_wide || *size == 0 || all - own + size <= MAX_NAMES
    }

    /// Counts the names of an object that came or went.
    fn count(&mut self, key: &ObjectKey, before: Option<&RuleObject>, now: Option<&RuleObject>) {
        let names = |it: Option<&RuleObject>| it.map_or(0, RuleObject::names_read);
        let left_out =
            |it: Option<&RuleObject>| usize::from(it.is_some_and(RuleObject::is_left_out));
        self.left_out = self.left_out + left_out(now) - left_out(before);
        let all = self.names_of.entry(key.namespace.clone()).or_default();
        *all = *all + names(now) - names(before);
        if *all == 0 {
            self.names_of.remove(&key.namespace);
        }
    }

    fn replace(&mut self, rule_object: Arc<RuleObject>) {
        let key = rule_object.key.clone();
        self.refused += rule_object.refused();
        let known = self
            .rule_objects
            .insert(key.clone(), Arc::clone(&rule_object));
        self.enter(&rule_object, known.as_deref());
        self.count(&key, known.as_deref(), Some(&rule_object));
        if known
            .as_ref()
            .is_none_or(|known| known.faults != rule_object.faults)
        {
            self.changed.faults.insert(key.clone());
        }
        if let Some(known) = known {
            self.refused = self.refused.saturating_sub(known.refused());
            self.changed.tenants.insert(known.namespace);
            self.leave(&known, |name| rule_object.uses(name).is_none());
        }
        self.changed.tenants.insert(rule_object.namespace);
        self.changed.rule_objects.insert(key);
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        if let Some(rule_object) = self.rule_objects.remove(key) {
            self.refused = self.refused.saturating_sub(rule_object.refused());
            self.leave(&rule_object, |_| true);
            self.changed.tenants.insert(rule_object.namespace);
            self.changed.rule_objects.insert(key.clone());
            self.count(key, Some(&rule_object), None);
        }
    }

    /// Replaces all objects. Those that cannot be decoded keep their last known state.
    pub(super) fn reset<K: RuleSource>(&mut self, objects: &[K], unreadable: &BTreeSet<ObjectKey>) {
        let mut keys = unreadable.clone();
        keys.extend(objects.iter().map(ObjectKey::of));
        let gone = self.rule_objects.keys().filter(|key| !keys.contains(key));
        let gone: Vec<ObjectKey> = gone.cloned().collect();
        for key in gone {
            self.remove(&key);
        }
        for object in objects {
            self.apply(object);
        }
    }

    /// Makes this object a user of its names, instead of the `known` one of the same key.
    fn enter(&mut self, rule_object: &Arc<RuleObject>, known: Option<&RuleObject>) {
        for (name, _) in &rule_object.names {
            let users = self.users.entry(name.clone()).or_default();
            users.insert(Arc::clone(rule_object));
            let before = known.and_then(|known| known.retention_of(name));
            if before != rule_object.retention_of(name) {
                self.changed.names.insert(name.clone());
            }
        }
    }

    /// Removes this object from the users of the names that `is_left` selects.
    fn leave(&mut self, rule_object: &RuleObject, is_left: impl Fn(&DnsName) -> bool) {
        for (name, _) in rule_object.names.iter().filter(|(name, _)| is_left(name)) {
            if let Some(users) = self.users.get_mut(name) {
                users.remove(&rule_object.key);
                if users.is_empty() {
                    self.users.remove(name);
                }
            }
            self.changed.names.insert(name.clone());
        }
    }

    /// The changes since the last call.
    pub(super) fn take_changed_uses(&mut self) -> ChangedUses {
        let mut interner = Interner::default();
        let names = std::mem::take(&mut self.changed.names);
        let tenants = std::mem::take(&mut self.changed.tenants);
        let names = names.into_iter().map(|name| {
            let in_use = self.in_use(&name).map(|it| interner.share(it));
            (name, in_use)
        });
        let namespaces = tenants.into_iter().map(|it| (it, self.names_of(it)));
        ChangedUses {
            names: names.collect(),
            namespaces: namespaces.collect(),
        }
    }

    /// How the name is used, if it is.
    fn in_use(&self, name: &DnsName) -> Option<WantedName> {
        let users = self.users.get(name)?;
        Some(WantedName {
            retention: users.retention(name)?,
            namespaces: users.namespaces(),
        })
    }

    /// The names in the rules of a namespace or a policy, sorted.
    fn names_of(&self, tenant: Namespace) -> Option<Arc<[DnsName]>> {
        let namespace = self.namespace_of(tenant);
        let all = self.in_namespace(&namespace).map(|(_, it)| it);
        let all = all.filter(|it| it.namespace == tenant);
        let names = all.flat_map(|rule_object| rule_object.names.iter());
        let names: BTreeSet<&DnsName> = names.map(|(name, _)| name).collect();
        (!names.is_empty()).then(|| names.into_iter().cloned().collect())
    }

    /// The namespace of the objects whose names are counted for it; empty for a policy.
    fn namespace_of(&self, tenant: Namespace) -> Arc<str> {
        if self.are_cluster_wide {
            "".into()
        } else {
            self.namespaces.name(tenant)
        }
    }

    fn in_namespace(
        &self,
        namespace: &str,
    ) -> impl Iterator<Item = (&ObjectKey, &Arc<RuleObject>)> {
        let rule_objects = self
            .rule_objects
            .range(ObjectKey::before_all_in(namespace)..);
        rule_objects.take_while(move |(key, _)| key.namespace == namespace)
    }

    /// Updates the overview by the changes since the last call, and returns the objects
    /// whose faults changed.
    pub(super) fn show(&mut self, overview: &mut Overview) -> BTreeSet<ObjectKey> {
        let changed = std::mem::take(&mut self.changed);
        overview.objects = self.rule_objects.len();
        for key in &changed.rule_objects {
            let faults = self.get(key).map(|rule_object| &rule_object.faults);
            let faults = faults.filter(|faults| !faults.is_empty()).cloned();
            replace(&mut overview.faults, key, faults);
        }
        changed.faults
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&RuleObject> {
        self.rule_objects.get(key).map(|rule_object| &**rule_object)
    }

    /// The objects that use the name now.
    pub(super) fn users(&self, name: &DnsName) -> impl Iterator<Item = &RuleObject> {
        self.users.get(name).into_iter().flat_map(Users::iter)
    }

    /// The objects with rules for exactly this name.
    pub(super) fn using(&self, name: &DnsName) -> impl Iterator<Item = &ObjectReference> {
        self.users(name).map(|user| &user.about)
    }

    /// The objects with Deny rules for exactly this name.
    pub(super) fn denying(&self, name: &DnsName) -> impl Iterator<Item = &ObjectReference> {
        let denies = |user: &&RuleObject| user.uses(name).is_some_and(|uses| uses.denied);
        self.users(name).filter(denies).map(|user| &user.about)
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<RuleObject>> {
        self.rule_objects.values()
    }

    /// The objects whose names are counted for a namespace or a policy.
    pub(super) fn of_namespace(&self, namespace: Namespace) -> Vec<&RuleObject> {
        let name = self.namespace_of(namespace);
        let own = self.in_namespace(&name).map(|(_, it)| &**it);
        own.filter(|it| it.namespace == namespace && !it.names.is_empty())
            .collect()
    }

    #[cfg(test)]
    pub(super) fn faulty(&self) -> impl Iterator<Item = &ObjectKey> {
        let faulty = self.rule_objects.iter();
        let faulty = faulty.filter(|(_, it)| !it.faults.is_empty());
        faulty.map(|(key, _)| key)
    }
}
