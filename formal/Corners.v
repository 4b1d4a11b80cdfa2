(** The corners of the region of admissible voters, and why they suffice.

    A voter's pair (p, p′) lies in F = {p ≤ e^ε p′ + Δ, p′ ≤ e^ε p + Δ, and the same for 1−p, 1−p′} ∩ [0,1]². With
    x = (e^ε + Δ)/(e^ε + 1) and y = 1 − x, F is the hull of eight corners. What is proved here holds for every larger x and Δ, so
    that a checker may round both up. f is affine in each voter's pair, so it is largest where every voter sits at a corner, and at
    (0,0) or (1,1) where the record does not move the voter. *)

From Coq Require Import Reals List Lra Lia Arith.
From Darrm Require Import Taylor Votes.
Import ListNotations.
Local Open Scope R_scope.

Inductive corner := Zero | One | XY | YX | Up | Down | UpToOne | DownFromOne.

(** Where a corner is: (p, p′). *)
Definition place (x D : R) (k : corner) : R * R :=
  match k with
  | Zero => (0, 0)
  | One => (1, 1)
  | XY => (x, 1 - x)
  | YX => (1 - x, x)
  | Up => (0, D)
  | Down => (D, 0)
  | UpToOne => (1 - D, 1)
  | DownFromOne => (1, 1 - D)
  end.

Definition moving (k : corner) : bool := match k with Zero | One => false | _ => true end.
Definition moved_corners (ks : list corner) : nat := length (filter moving ks).

(** What makes x and D large enough for voters that are (ε, Δ)-DP. *)
Definition covers (epsilon : option R) (Delta x D : R) : Prop :=
  1 / 2 <= x <= 1 /\ 0 <= D <= 1 /\
  match epsilon with
  | None => x = 1
  | Some eps => exp eps + Delta <= x * (exp eps + 1) /\ 0 <= Delta <= D
  end.

(** With the exact corners nothing is lost: they are admissible themselves. *)
Lemma exact_corners_admissible eps Delta k :
  0 <= eps -> 0 <= Delta <= 1 -> admissible (Some eps) Delta (place ((exp eps + Delta) / (exp eps + 1)) Delta k).
Proof.
  intros e d.
  assert (1 <= exp eps) by (now apply exp_at_least_one).
  set (E := exp eps) in *; set (x := (E + Delta) / (E + 1)).
  assert (X : x * (E + 1) = E + Delta) by (unfold x; field; lra).
  assert (0 <= x <= 1) by (split; nra).
  destruct k; simpl; fold E; nra.
Qed.

Lemma exact_corners_cover eps Delta :
  0 <= eps -> 0 <= Delta <= 1 -> covers (Some eps) Delta ((exp eps + Delta) / (exp eps + 1)) Delta.
Proof.
  intros e d.
  assert (1 <= exp eps) by (now apply exp_at_least_one).
  unfold covers; set (E := exp eps) in *; set (x := (E + Delta) / (E + 1)).
  assert (X : x * (E + 1) = E + Delta) by (unfold x; field; lra).
  repeat split; nra.
Qed.

Lemma exact_corners_cover_all : covers None 0 1 0.
Proof. unfold covers; lra. Qed.

Section Hull.

Variables x D : R.
Hypothesis x_range : 1 / 2 <= x <= 1.
Hypothesis D_range : 0 <= D <= 1.

(** Convex combinations of the corners. *)
Inductive in_hull : R -> R -> Prop :=
  | at_corner k : in_hull (fst (place x D k)) (snd (place x D k))
  | between t p p' q q' : 0 <= t <= 1 -> in_hull p p' -> in_hull q q' ->
      in_hull (t * p + (1 - t) * q) (t * p' + (1 - t) * q').

(** What is affine and at most B at the corners is at most B on their hull. *)
Lemma affine_on_hull h u w B p p' : in_hull p p' ->
  (forall k, h + u * fst (place x D k) + w * snd (place x D k) <= B) -> h + u * p + w * p' <= B.
Proof.
  intros inside corners; induction inside as [k|t p p' q q' range _ here _ there]; [apply corners|].
  replace (h + u * (t * p + (1 - t) * q) + w * (t * p' + (1 - t) * q'))
    with (t * (h + u * p + w * p') + (1 - t) * (h + u * q + w * q')) by ring.
  nra.
Qed.

Lemma in_hull_eq p p' q q' : in_hull p p' -> p = q -> p' = q' -> in_hull q q'.
Proof. now intros inside -> ->. Qed.

Lemma segment a b p q : in_hull a q -> in_hull b q -> a <= p <= b -> in_hull p q.
Proof.
  intros A B range; destruct (Req_dec a b) as [same|differ].
  - apply (in_hull_eq a q); [assumption|lra|reflexivity].
  - assert (0 < b - a) by lra.
    assert (t : 0 <= (b - p) / (b - a) <= 1).
    { split; apply Rmult_le_reg_r with (b - a); try assumption;
        replace ((b - p) / (b - a) * (b - a)) with (b - p) by (field; lra); lra. }
    apply (in_hull_eq _ _ _ _ (between ((b - p) / (b - a)) _ _ _ _ t A B)); field; lra.
Qed.

(** The symmetries of the corners: exchange the two datasets, exchange the two answers. *)
Lemma swapped p p' : in_hull p p' -> in_hull p' p.
Proof.
  induction 1 as [k|t p p' q q' range _ here _ there]; [|now apply between].
  destruct k; [apply (at_corner Zero)|apply (at_corner One)|apply (at_corner YX)|apply (at_corner XY)|apply (at_corner Down)
    |apply (at_corner Up)|apply (at_corner DownFromOne)|apply (at_corner UpToOne)].
Qed.

Lemma reflected p p' : in_hull p p' -> in_hull (1 - p) (1 - p').
Proof.
  induction 1 as [k|t p p' q q' range _ here _ there].
  - destruct k;
      [ apply (in_hull_eq _ _ _ _ (at_corner One)) | apply (in_hull_eq _ _ _ _ (at_corner Zero))
      | apply (in_hull_eq _ _ _ _ (at_corner YX)) | apply (in_hull_eq _ _ _ _ (at_corner XY))
      | apply (in_hull_eq _ _ _ _ (at_corner DownFromOne)) | apply (in_hull_eq _ _ _ _ (at_corner UpToOne))
      | apply (in_hull_eq _ _ _ _ (at_corner Down)) | apply (in_hull_eq _ _ _ _ (at_corner Up)) ]; simpl; ring.
  - apply (in_hull_eq _ _ _ _ (between t _ _ _ _ range here there)); ring.
Qed.

(** The quarter of the polygon nearest to (1/2, 0): along p′, from the diagonal to the edge (Δ,0) – (x,y), or (x,y) – (1/2, 1/2). *)
Lemma quarter p p' :
  0 <= p' <= p -> p + p' <= 1 -> (p' <= 1 - x -> (1 - x) * p <= x * p' + D * (1 - x - p')) -> in_hull p p'.
Proof.
  intros [p'0 le] half edge.
  assert (diagonal : in_hull p' p').
  { apply (in_hull_eq _ _ _ _ (between p' _ _ _ _ ltac:(lra) (at_corner One) (at_corner Zero))); simpl; ring. }
  destruct (Rle_lt_dec p' (1 - x)) as [low|high]; [destruct (Req_dec x 1) as [x1|x1]|].
  - apply (segment p' 1); [assumption| |lra].
    apply (in_hull_eq _ _ _ _ (at_corner XY)); simpl; lra.
  - specialize (edge low); assert (0 < 1 - x) by lra.
    assert (t : 0 <= p' / (1 - x) <= 1).
    { split; apply Rmult_le_reg_r with (1 - x); try assumption;
        replace (p' / (1 - x) * (1 - x)) with p' by (field; lra); lra. }
    apply (segment p' ((x * p' + D * (1 - x - p')) / (1 - x))); [assumption| |split; [assumption|]].
    + apply (in_hull_eq _ _ _ _ (between (p' / (1 - x)) _ _ _ _ t (at_corner XY) (at_corner Down))); simpl; field; lra.
    + apply Rmult_le_reg_r with (1 - x); [assumption|].
      replace ((x * p' + D * (1 - x - p')) / (1 - x) * (1 - x)) with (x * p' + D * (1 - x - p')) by (field; lra); lra.
  - assert (0 < 2 * x - 1) by lra.
    assert (t : 0 <= (x - p') / (2 * x - 1) <= 1).
    { split; apply Rmult_le_reg_r with (2 * x - 1); try assumption;
        replace ((x - p') / (2 * x - 1) * (2 * x - 1)) with (x - p') by (field; lra); lra. }
    apply (segment p' (1 - p')); [assumption| |lra].
    apply (in_hull_eq _ _ _ _ (between ((x - p') / (2 * x - 1)) _ _ _ _ t (at_corner XY) (at_corner YX))); simpl; field; lra.
Qed.

(** Every admissible pair is a convex combination of the corners. *)
Theorem hull epsilon Delta p p' : covers epsilon Delta x D -> admissible epsilon Delta (p, p') -> in_hull p p'.
Proof.
  intros cov adm.
  assert (edges : 0 <= p <= 1 /\ 0 <= p' <= 1
    /\ (p' <= 1 - x -> (1 - x) * p <= x * p' + D * (1 - x - p'))
    /\ (p <= 1 - x -> (1 - x) * p' <= x * p + D * (1 - x - p))
    /\ (1 - p <= 1 - x -> (1 - x) * (1 - p') <= x * (1 - p) + D * (1 - x - (1 - p)))
    /\ (1 - p' <= 1 - x -> (1 - x) * (1 - p) <= x * (1 - p') + D * (1 - x - (1 - p')))).
  { unfold covers, admissible in *; destruct epsilon as [eps|].
    - destruct cov as (_ & _ & big & Dl), adm as (? & ? & e1 & e2 & e3 & e4); set (E := exp eps) in *.
      assert (key : forall s s', s <= E * s' + Delta -> 0 <= s' -> s' <= 1 - x -> (1 - x) * s <= x * s' + D * (1 - x - s')).
      { intros s s' e s0 low.
        assert ((1 - x) * s <= (1 - x) * (E * s' + Delta)) by (apply Rmult_le_compat_l; lra).
        assert (s' * (E + Delta) <= s' * (x * (E + 1))) by (apply Rmult_le_compat_l; lra).
        assert (Delta * (1 - x - s') <= D * (1 - x - s')) by (apply Rmult_le_compat_r; lra).
        nra. }
      repeat split; try lra; intros; apply key; lra.
    - destruct cov as (_ & _ & ->), adm as (? & ? & _); repeat split; try lra; intros low.
      + replace p' with 0 by lra; lra.
      + replace p with 0 by lra; lra.
      + replace p with 1 by lra; lra.
      + replace p' with 1 by lra; lra. }
  destruct edges as (? & ? & e1 & e2 & e3 & e4).
  destruct (Rle_lt_dec p' p), (Rle_lt_dec (p + p') 1).
  - apply quarter; try lra; assumption.
  - apply (in_hull_eq (1 - (1 - p)) (1 - (1 - p'))); try ring.
    apply reflected, swapped, quarter; try lra; assumption.
  - apply swapped, quarter; try lra; assumption.
  - apply (in_hull_eq (1 - (1 - p)) (1 - (1 - p'))); try ring.
    apply reflected, quarter; try lra; assumption.
Qed.

(** What p and 1 − p′ are at a list of corners. *)
Definition on_data (ks : list corner) : list R := map (fun k => fst (place x D k)) ks.
Definition on_neighbour (ks : list corner) : list R := map (fun k => 1 - snd (place x D k)) ks.

Lemma one_voter epsilon Delta v (a b : R -> R) a0 a1 b0 b1 B :
  covers epsilon Delta x D -> admissible epsilon Delta v ->
  (forall t, a t = (1 - t) * a0 + t * a1) -> (forall t, b t = (1 - t) * b0 + t * b1) ->
  (forall k, (Nat.b2n (moving k) <= Nat.b2n (moves v))%nat -> a (fst (place x D k)) + b (1 - snd (place x D k)) <= B) ->
  a (fst v) + b (1 - snd v) <= B.
Proof.
  intros cov adm affine_a affine_b corners.
  destruct (moves v) eqn:m.
  - rewrite affine_a, affine_b.
    replace ((1 - fst v) * a0 + fst v * a1 + ((1 - (1 - snd v)) * b0 + (1 - snd v) * b1))
      with ((a0 + b1) + (a1 - a0) * fst v + (b0 - b1) * snd v) by ring.
    apply affine_on_hull; [destruct v; now apply (hull epsilon Delta)|]; intros k; specialize (corners k ltac:(destruct (moving k); simpl; lia)).
    rewrite affine_a, affine_b in corners; lra.
  - assert (range : 0 <= fst v <= 1) by (destruct v; unfold admissible in adm; simpl; tauto).
    unfold moves in m; destruct Req_EM_T as [same|]; [rewrite <- same|discriminate].
    pose proof (corners Zero ltac:(simpl; lia)) as zero; pose proof (corners One ltac:(simpl; lia)) as one; simpl in zero, one.
    rewrite affine_a, affine_b in *; nra.
Qed.

(** Theorem (a), the part about corners: f is largest where every voter sits at a corner, and no voter that the record does not
    move sits at a corner that moves. *)
Theorem corners_suffice epsilon Delta c B voters : covers epsilon Delta x D -> Forall (admissible epsilon Delta) voters ->
  forall a b : nat -> R,
  (forall ks, length ks = length voters -> (moved_corners ks <= moved voters)%nat ->
     blossom (on_data ks) a + c * blossom (on_neighbour ks) b <= B) ->
  blossom (map fst voters) a + c * blossom (map (fun v => 1 - snd v) voters) b <= B.
Proof.
  intros cov adm; induction adm as [|v voters adm _ IH]; intros a b corners; [now apply (corners [])|].
  cbn [map blossom]; apply IH; intros ks len few.
  apply (one_voter epsilon Delta v (fun t => blossom (on_data ks) (step t a)) (fun t => c * blossom (on_neighbour ks) (step t b))
    (blossom (on_data ks) a) (blossom (on_data ks) (fun l => a (S l)))
    (c * blossom (on_neighbour ks) b) (c * blossom (on_neighbour ks) (fun l => b (S l)))); auto.
  - intros t; apply (blossom_cons t).
  - intros t; change (blossom (on_neighbour ks) (step t b)) with (blossom (t :: on_neighbour ks) b); rewrite blossom_cons; ring.
  - intros k le; apply (corners (k :: ks)); [simpl; congruence|].
    unfold moved_corners, moved in *; simpl; destruct (moving k), (moves v); simpl in *; lia.
Qed.

End Hull.

(** Theorem (a): if f is within its limit at every list of K corners of which at most r move, then whatever K independent admissible
    voters do of which the record moves at most r, both outputs are (target, δ)-DP. With x and D exact ([exact_corners_cover]) and
    c = e^target this is the constraint of the design itself; larger x and D and a smaller c are sound as well. *)
Theorem private_by_corners K r epsilon Delta target delta gamma x D c :
  covers epsilon Delta x D ->
  noise_function K gamma ->
  c <= exp target ->
  (forall ks, length ks = K -> (moved_corners ks <= r)%nat ->
     blossom (on_data x D ks) (signed K gamma) + c * blossom (on_neighbour x D ks) (signed K gamma) <= c - 1 + 2 * delta) ->
  private_release K r epsilon Delta target delta gamma.
Proof.
  intros cov noise le corners; apply private_by_f with c; auto; intros voters len adm few.
  destruct cov as (xr & Dr & e) eqn:E; clear E.
  apply (corners_suffice x D xr Dr epsilon Delta); [unfold covers; auto|assumption|].
  intros ks len' few'; apply corners; lia.
Qed.

(** The same with the numbers of the design itself: m, and the exact corners of (ε, Δ)-DP voters. *)
Corollary private_by_exact_corners K r eps Delta m delta gamma :
  0 <= eps -> 0 <= Delta <= 1 -> noise_function K gamma ->
  (let x := (exp eps + Delta) / (exp eps + 1) in
   let c := exp (m * eps) in
   forall ks, length ks = K -> (moved_corners ks <= r)%nat ->
     blossom (on_data x Delta ks) (signed K gamma) + c * blossom (on_neighbour x Delta ks) (signed K gamma) <= c - 1 + 2 * delta) ->
  private_release K r (Some eps) Delta (m * eps) delta gamma.
Proof.
  intros e d noise corners.
  apply (private_by_corners _ _ _ _ _ _ _ ((exp eps + Delta) / (exp eps + 1)) Delta (exp (m * eps))); auto using exact_corners_cover.
  right; reflexivity.
Qed.
