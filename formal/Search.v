(** The search over all multisets of corners, in whole numbers.

    A number z stands for z / 2^bits. de Casteljau steps are rounded up, so an array is never below the true one; x, y, Δ and c are
    exact at this scale, because a checker chooses them so. For each (nx, ny) what is left is separable: H(p) depends on
    d = #(Δ,0) and s = #(1−Δ,1) alone, H(1−p′) on t = #(1,1−Δ) and u = #(0,Δ), and the two sides only share s + t ≤ n₁, d + u ≤ n₀
    and the number of voters that may move. So one side needs to be seen through its running maximum only. *)

From Coq Require Import Reals ZArith List Lra Lia Arith Bool Permutation.
From Darrm Require Import Votes Corners.
Import ListNotations.

(** ** The search *)

Fixpoint times {A} (n : nat) (next : A -> A) (a : A) : A := match n with O => a | S n => times n next (next a) end.

(** [a; next a; ...; next^n a]. *)
Fixpoint iterates {A} (n : nat) (next : A -> A) (a : A) : list A :=
  a :: match n with O => [] | S n => iterates n next (next a) end.

Fixpoint all_upto (test : nat -> bool) (n : nat) : bool :=
  match n with O => test O | S m => test n && all_upto test m end.

Fixpoint max_upto (value : nat -> Z) (n : nat) : Z :=
  match n with O => value O | S m => Z.max (value n) (max_upto value m) end.

Fixpoint maxima_from (largest : Z) (values : list Z) : list Z :=
  match values with
  | [] => [largest]
  | v :: rest => largest :: maxima_from (Z.max largest v) rest
  end.

(** Entry i is the largest of the first i + 1 values. *)
Definition running_maxima (values : list Z) : list Z :=
  match values with [] => [] | v :: rest => maxima_from v rest end.

(** What they do. *)

Lemma all_upto_true test n : all_upto test n = true -> forall i, (i <= n)%nat -> test i = true.
Proof.
  induction n as [|n IH]; simpl; intros all i le; [now replace i with 0%nat by lia|].
  apply andb_prop in all; destruct all; destruct (Nat.eq_dec i (S n)) as [->|]; auto; apply IH; auto; lia.
Qed.

Lemma max_upto_above v n i : (i <= n)%nat -> (v i <= max_upto v n)%Z.
Proof.
  induction n as [|n IH]; simpl; intros le; [replace i with 0%nat by lia; lia|].
  destruct (Nat.eq_dec i (S n)) as [->|]; [lia|]; specialize (IH ltac:(lia)); lia.
Qed.

Lemma nth_iterates {A} next (dflt : A) : forall n a i, (i <= n)%nat -> nth i (iterates n next a) dflt = times i next a.
Proof. induction n as [|n IH]; intros a [|i] le; simpl; auto; [lia|]; apply IH; lia. Qed.

Lemma length_iterates {A} (next : A -> A) : forall n a, length (iterates n next a) = S n.
Proof. induction n as [|n IH]; intros; simpl; auto. Qed.

Lemma maxima_from_above : forall values m i j, (i <= j <= length values)%nat ->
  (nth i (m :: values) 0 <= nth j (maxima_from m values) 0)%Z /\ (m <= nth j (maxima_from m values) 0)%Z.
Proof.
  induction values as [|v values IH]; intros m i j [le le']; simpl in le'.
  - replace j with 0%nat by lia; replace i with 0%nat by lia; simpl; lia.
  - destruct j as [|j]; [replace i with 0%nat by lia; simpl; lia|].
    cbn [maxima_from nth]; destruct (IH (Z.max m v) (pred i) j) as [above more]; [lia|].
    split; [|lia]; destruct i as [|[|i]]; simpl in *; lia.
Qed.

Lemma running_maxima_above values i j : (i <= j < length values)%nat ->
  (nth i values 0 <= nth j (running_maxima values) 0)%Z.
Proof. destruct values as [|v values]; simpl; intros []; [lia|]; apply maxima_from_above; lia. Qed.

Lemma nth_map_seq {A} (make : nat -> A) dflt n i : (i < n)%nat -> nth i (map make (seq 0 n)) dflt = make i.
Proof.
  intros lt; rewrite (nth_indep _ dflt (make 0%nat)) by now rewrite map_length, seq_length.
  now rewrite map_nth, seq_nth.
Qed.

(** How many voters of a list sit at a corner. *)
Definition same (k k' : corner) : bool :=
  match k, k' with
  | Zero, Zero | One, One | XY, XY | YX, YX | Up, Up | Down, Down | UpToOne, UpToOne | DownFromOne, DownFromOne => true
  | _, _ => false
  end.
Definition count (k : corner) (ks : list corner) : nat := length (filter (same k) ks).

Lemma counts_total ks :
  (count Zero ks + count One ks + count XY ks + count YX ks + count Up ks + count Down ks + count UpToOne ks
   + count DownFromOne ks = length ks)%nat.
Proof. induction ks as [|k ks IH]; [reflexivity|]; unfold count in *; destruct k; simpl; lia. Qed.

Lemma counts_moved ks :
  (count XY ks + count YX ks + count Up ks + count Down ks + count UpToOne ks + count DownFromOne ks = moved_corners ks)%nat.
Proof. induction ks as [|k ks IH]; [reflexivity|]; unfold count, moved_corners in *; destruct k; simpl; lia. Qed.

(** With Δ = 0 there are four corners, not eight. *)
Definition collapse (k : corner) : corner :=
  match k with Up | Down => Zero | UpToOne | DownFromOne => One | k => k end.

Lemma collapse_counts ks : count Up (map collapse ks) = 0%nat /\ count Down (map collapse ks) = 0%nat
  /\ count UpToOne (map collapse ks) = 0%nat /\ count DownFromOne (map collapse ks) = 0%nat.
Proof. induction ks as [|k ks IH]; [auto|]; unfold count in *; destruct k; simpl; intuition lia. Qed.

Lemma collapse_moved ks : (moved_corners (map collapse ks) <= moved_corners ks)%nat.
Proof. induction ks as [|k ks IH]; [auto|]; unfold moved_corners in *; destruct k; simpl; lia. Qed.

Section Search.

Variable bits : Z.
Let one : Z := Z.shiftl 1 bits.  (* 2^bits *)

(** The least whole number that is at least z / 2^bits. *)
Definition round_up (z : Z) : Z := - Z.shiftr (- z) bits.

(** One de Casteljau step at t: (1 − t)a_j + t·a_{j+1}. *)
Fixpoint step_up (t : Z) (A : list Z) : list Z :=
  match A with
  | a0 :: (a1 :: _) as rest => (a0 + round_up (t * (a1 - a0)))%Z :: step_up t rest
  | _ => []
  end.

Variables x D c limit : Z.

Definition entry (table : list (list (list Z))) (i j l : nat) : Z := nth l (nth j (nth i table []) []) 0%Z.

(** All multisets with n₁ voters near 1, n₀ near 0, of which at most w are not at (0,0) or (1,1). *)
Definition split_within (table : list (list (list Z))) (w n0 n1 : nat) : bool :=
  let rows := map (fun t => running_maxima (map (fun u => entry table t u (n0 - u)) (seq 0 (S (Nat.min w n0)))))
                  (seq 0 (S (Nat.min w n1))) in
  all_upto (fun d =>
    all_upto (fun s =>
      let other := max_upto (fun t => nth (Nat.min (n0 - d) (w - d - s - t)) (nth t rows []) 0%Z)
                            (Nat.min (n1 - s) (w - d - s)) in
      (entry table d s (n1 - s) * one + c * other <=? limit)%Z)
    (Nat.min n1 (w - d)))
  (Nat.min n0 w).

(** All multisets of the voters that are left, when A has been stepped to all that sit at (x,y) and (y,x). *)
Definition rest_within (w : nat) (A : list Z) : bool :=
  let n := pred (length A) in
  let w := if (D =? 0)%Z then O else w in
  let table := map (iterates (Nat.min w n) (step_up (one - D))) (iterates (Nat.min w n) (step_up D) A) in
  all_upto (fun n1 => split_within table w (n - n1) n1) n.

(** Test A, and what becomes of it after one, two, ... up to [many] steps at t; the test is told how many steps are left. *)
Fixpoint along (t : Z) (many : nat) (test : nat -> list Z -> bool) (A : list Z) : bool :=
  test many A && match many with O => true | S m => along t m test (step_up t A) end.

(** All multisets of the corners of which at most r move: f·2^(2·bits) ≤ limit. G bounds g from above. *)
Definition search_within (r : nat) (G : list Z) : bool :=
  along x r (fun left A => along (one - x) left rest_within A) G.

(** ** Why it is complete *)

Local Open Scope R_scope.

Hypothesis bits_range : (0 <= bits)%Z.

Definition value (z : Z) : R := IZR z / IZR one.

Lemma one_positive : 0 < IZR one.
Proof. unfold one; rewrite Z.shiftl_1_l; apply IZR_lt, Z.pow_pos_nonneg; lia. Qed.

Lemma value_scaled z : value z * IZR one = IZR z.
Proof. unfold value; field; pose proof one_positive; lra. Qed.

Lemma value_le z z' : (z <= z')%Z -> value z <= value z'.
Proof.
  intros le; unfold value; apply Rmult_le_compat_r; [|now apply IZR_le].
  left; apply Rinv_0_lt_compat, one_positive.
Qed.

Lemma round_up_above z : IZR z <= IZR (round_up z) * IZR one.
Proof.
  rewrite <- mult_IZR; apply IZR_le; unfold round_up, one.
  rewrite Z.shiftr_div_pow2, Z.shiftl_1_l by assumption.
  pose proof (Z.pow_pos_nonneg 2 bits ltac:(lia) bits_range).
  pose proof (Z.mul_div_le (- z) (2 ^ bits) ltac:(lia)); nia.
Qed.

(** The array A, of length n + 1, bounds a on 0..n from above. *)
Definition bounded (n : nat) (A : list Z) (a : nat -> R) : Prop :=
  length A = S n /\ forall l, (l <= n)%nat -> a l <= value (nth l A 0%Z).

Lemma bounded_step t A : (0 <= t <= one)%Z -> forall n a,
  bounded (S n) A a -> bounded n (step_up t A) (step (value t) a).
Proof.
  intros range; induction A as [|a0 A IH]; intros n a [len above]; [discriminate|].
  destruct A as [|a1 A]; [discriminate|].
  change (step_up t (a0 :: a1 :: A)) with ((a0 + round_up (t * (a1 - a0)))%Z :: step_up t (a1 :: A)).
  assert (t_range : 0 <= IZR t <= IZR one) by (split; apply IZR_le; lia).
  assert (first : step (value t) a 0 <= value (a0 + round_up (t * (a1 - a0)))).
  { pose proof (above 0%nat ltac:(lia)) as h0; pose proof (above 1%nat ltac:(lia)) as h1; simpl in h0, h1; unfold step.
    pose proof one_positive as pos.
    apply Rmult_le_reg_r with (IZR one); [assumption|]; rewrite value_scaled, plus_IZR.
    apply (Rmult_le_compat_r (IZR one)) in h0; [|lra]; apply (Rmult_le_compat_r (IZR one)) in h1; [|lra].
    rewrite value_scaled in h0, h1.
    pose proof (round_up_above (t * (a1 - a0))) as up; rewrite mult_IZR, minus_IZR in up.
    apply Rmult_le_reg_r with (IZR one); [assumption|].
    apply (Rmult_le_compat_l (IZR one - IZR t)) in h0; [|lra]; apply (Rmult_le_compat_l (IZR t)) in h1; [|lra].
    replace (((1 - value t) * a 0%nat + value t * a 1%nat) * IZR one * IZR one)
      with ((IZR one - value t * IZR one) * (a 0%nat * IZR one) + value t * IZR one * (a 1%nat * IZR one)) by ring.
    rewrite value_scaled; nra. }
  destruct n as [|n].
  - split; [destruct A; simpl in *; congruence|].
    intros l le; replace l with 0%nat by lia; exact first.
  - destruct (IH n (fun l => a (S l))) as [len' above'].
    { split; [simpl in *; lia|]; intros l le; apply (above (S l)); lia. }
    split; [cbn [length]; now rewrite len'|].
    intros [|l] le; [exact first|]; apply above'; lia.
Qed.

Lemma bounded_times t : (0 <= t <= one)%Z -> forall j n A a,
  bounded (j + n) A a -> bounded n (times j (step_up t) A) (times j (step (value t)) a).
Proof.
  intros range; induction j as [|j IH]; intros n A a bound; [exact bound|].
  apply IH, bounded_step; assumption.
Qed.

Lemma along_true t test : forall many A, along t many test A = true ->
  forall j, (j <= many)%nat -> test (many - j)%nat (times j (step_up t) A) = true.
Proof.
  induction many as [|many IH]; cbn [along]; intros A all j le; apply andb_prop in all; destruct all as [here there].
  - now replace j with 0%nat by lia.
  - destruct j as [|j]; [exact here|]; apply (IH _ there j); lia.
Qed.

Hypothesis x_range : (0 <= x <= one)%Z.
Hypothesis D_range : (0 <= D <= one)%Z.
Hypothesis c_range : (0 <= c)%Z.

Let y : R := 1 - value x.

(** [a] conditioned on i voters at Δ and j at 1 − Δ. *)
Definition near_ends (i j : nat) (a : nat -> R) : nat -> R :=
  times j (step (1 - value D)) (times i (step (value D)) a).

Lemma value_complement t : value (one - t) = 1 - value t.
Proof. unfold value; rewrite minus_IZR; field; pose proof one_positive; lra. Qed.

Lemma entry_above n A a m i j l :
  bounded n A a -> (i <= m)%nat -> (j <= m)%nat -> (i + j + l <= n)%nat ->
  near_ends i j a l <= value (entry (map (iterates m (step_up (one - D))) (iterates m (step_up D) A)) i j l).
Proof.
  intros bound im jm le; unfold entry.
  rewrite (nth_indep _ [] (iterates m (step_up (one - D)) [])) by now rewrite map_length, length_iterates; lia.
  rewrite map_nth, !nth_iterates by assumption.
  unfold near_ends; rewrite <- value_complement.
  assert (B : bounded (n - i - j) (times j (step_up (one - D)) (times i (step_up D) A))
                (times j (step (value (one - D))) (times i (step (value D)) a))).
  { apply bounded_times; [lia|]; apply bounded_times; [lia|].
    now replace (i + (j + (n - i - j)))%nat with n by lia. }
  apply B; lia.
Qed.

Lemma split_within_sound n A a m w n0 n1 d s t u :
  bounded n A a -> m = Nat.min w n -> (n0 + n1 = n)%nat ->
  split_within (map (iterates m (step_up (one - D))) (iterates m (step_up D) A)) w n0 n1 = true ->
  (d + u <= n0)%nat -> (s + t <= n1)%nat -> (d + s + t + u <= w)%nat ->
  (near_ends d s a (n1 - s) + value c * near_ends t u a (n0 - u)) * (IZR one * IZR one) <= IZR limit.
Proof.
  intros bound -> sum all du st few; unfold split_within in all; cbv zeta in all.
  pose proof (all_upto_true _ _ all d ltac:(lia)) as alld; cbv beta in alld.
  pose proof (all_upto_true _ _ alld s ltac:(lia)) as test; cbv beta zeta in test; clear all alld.
  apply Z.leb_le, IZR_le in test; rewrite plus_IZR, !mult_IZR in test.
  match type of test with _ + _ * IZR (max_upto ?v ?n) <= _ =>
    pose proof (max_upto_above v n t ltac:(lia)) as M; cbv beta in M; set (other := max_upto v n) in * end.
  rewrite nth_map_seq in M by lia.
  match type of M with (nth ?j (running_maxima ?values) _ <= _)%Z =>
    pose proof (running_maxima_above values u j) as R end.
  rewrite map_length, seq_length in R; specialize (R ltac:(lia)).
  rewrite nth_map_seq in R by lia.
  pose proof (entry_above n A a (Nat.min w n) d s (n1 - s) bound ltac:(lia) ltac:(lia) ltac:(lia)) as P.
  pose proof (entry_above n A a (Nat.min w n) t u (n0 - u) bound ltac:(lia) ltac:(lia) ltac:(lia)) as Q.
  set (table := map _ _) in *.
  assert (Q' : near_ends t u a (n0 - u) <= value other) by (eapply Rle_trans; [exact Q|]; apply value_le; lia).
  pose proof one_positive as pos.
  apply (Rmult_le_compat_r (IZR one)) in P; [|lra]; apply (Rmult_le_compat_r (IZR one)) in Q'; [|lra].
  rewrite value_scaled in P, Q'.
  assert (0 <= IZR c) by now apply IZR_le.
  replace ((near_ends d s a (n1 - s) + value c * near_ends t u a (n0 - u)) * (IZR one * IZR one))
    with (near_ends d s a (n1 - s) * IZR one * IZR one + value c * IZR one * (near_ends t u a (n0 - u) * IZR one)) by ring.
  rewrite value_scaled.
  apply Rle_trans with (2 := test); apply Rplus_le_compat; [apply Rmult_le_compat_r|apply Rmult_le_compat_l]; lra.
Qed.

(** ** From lists of corners to counts *)

Definition pile (X Y d1 d2 : R) (nx ny d s k z : nat) : list R :=
  repeat X nx ++ repeat Y ny ++ repeat d1 d ++ repeat d2 s ++ repeat 1 k ++ repeat 0 z.

Lemma blossom_repeat t n : forall ps a, blossom (repeat t n ++ ps) a = blossom ps (times n (step t) a).
Proof. induction n as [|n IH]; intros; simpl; auto. Qed.

Lemma blossom_ends k z : forall a, blossom (repeat 1 k ++ repeat 0 z) a = a k.
Proof.
  induction k as [|k IH]; intros a.
  - simpl; revert a; induction z as [|z IHz]; intros a; [reflexivity|].
    cbn [repeat]; rewrite blossom_cons, IHz; ring.
  - cbn [repeat app]; rewrite blossom_cons, !IH; ring.
Qed.

Lemma blossom_pile nx ny d s k z a :
  blossom (pile (value x) y (value D) (1 - value D) nx ny d s k z) a
  = near_ends d s (times ny (step y) (times nx (step (value x)) a)) k.
Proof. unfold pile; do 4 rewrite blossom_repeat; rewrite blossom_ends; reflexivity. Qed.

Lemma pile_x X Y d1 d2 nx ny d s k z : Permutation (X :: pile X Y d1 d2 nx ny d s k z) (pile X Y d1 d2 (S nx) ny d s k z).
Proof. reflexivity. Qed.
Lemma pile_y X Y d1 d2 nx ny d s k z : Permutation (Y :: pile X Y d1 d2 nx ny d s k z) (pile X Y d1 d2 nx (S ny) d s k z).
Proof. unfold pile; apply Permutation_middle. Qed.
Lemma pile_d X Y d1 d2 nx ny d s k z : Permutation (d1 :: pile X Y d1 d2 nx ny d s k z) (pile X Y d1 d2 nx ny (S d) s k z).
Proof. unfold pile; cbn [repeat app]; rewrite !(app_assoc (repeat X nx)); apply Permutation_middle. Qed.
Lemma pile_s X Y d1 d2 nx ny d s k z : Permutation (d2 :: pile X Y d1 d2 nx ny d s k z) (pile X Y d1 d2 nx ny d (S s) k z).
Proof.
  unfold pile; cbn [repeat app]; rewrite !(app_assoc (repeat X nx)), !(app_assoc (repeat X nx ++ repeat Y ny)).
  apply Permutation_middle.
Qed.
Lemma pile_k X Y d1 d2 nx ny d s k z : Permutation (1 :: pile X Y d1 d2 nx ny d s k z) (pile X Y d1 d2 nx ny d s (S k) z).
Proof.
  unfold pile; cbn [repeat app].
  rewrite !(app_assoc (repeat X nx)), !(app_assoc (repeat X nx ++ repeat Y ny)),
    !(app_assoc ((repeat X nx ++ repeat Y ny) ++ repeat d1 d)).
  apply Permutation_middle.
Qed.
Lemma pile_z X Y d1 d2 nx ny d s k z : Permutation (0 :: pile X Y d1 d2 nx ny d s k z) (pile X Y d1 d2 nx ny d s k (S z)).
Proof.
  unfold pile; cbn [repeat app].
  rewrite !(app_assoc (repeat X nx)), !(app_assoc (repeat X nx ++ repeat Y ny)),
    !(app_assoc ((repeat X nx ++ repeat Y ny) ++ repeat d1 d)),
    !(app_assoc (((repeat X nx ++ repeat Y ny) ++ repeat d1 d) ++ repeat d2 s)).
  apply Permutation_middle.
Qed.

Lemma on_data_pile X DD ks :
  Permutation (on_data X DD ks)
    (pile X (1 - X) DD (1 - DD) (count XY ks) (count YX ks) (count Down ks) (count UpToOne ks)
          (count One ks + count DownFromOne ks) (count Zero ks + count Up ks)).
Proof.
  induction ks as [|k ks IH]; [reflexivity|].
  unfold on_data; cbn [map]; fold (on_data X DD ks); rewrite IH; clear IH.
  unfold count; destruct k; cbn [filter same length place fst]; rewrite ?Nat.add_succ_r, ?Nat.add_succ_l;
    first [apply pile_x | apply pile_y | apply pile_d | apply pile_s | apply pile_k | apply pile_z].
Qed.

Lemma on_neighbour_pile X DD ks :
  Permutation (on_neighbour X DD ks)
    (pile X (1 - X) DD (1 - DD) (count XY ks) (count YX ks) (count DownFromOne ks) (count Up ks)
          (count Zero ks + count Down ks) (count One ks + count UpToOne ks)).
Proof.
  induction ks as [|k ks IH]; [reflexivity|].
  unfold on_neighbour; cbn [map]; fold (on_neighbour X DD ks); rewrite IH; clear IH.
  unfold count; destruct k; cbn [filter same length place snd]; rewrite ?Nat.add_succ_r, ?Nat.add_succ_l.
  - replace (1 - 0) with 1 by ring; apply pile_k.
  - replace (1 - 1) with 0 by ring; apply pile_z.
  - replace (1 - (1 - X)) with X by ring; apply pile_x.
  - apply pile_y.
  - apply pile_s.
  - replace (1 - 0) with 1 by ring; apply pile_k.
  - replace (1 - 1) with 0 by ring; apply pile_z.
  - replace (1 - (1 - DD)) with DD by ring; apply pile_d.
Qed.

Lemma collapse_place X ks : on_data X 0 (map collapse ks) = on_data X 0 ks /\ on_neighbour X 0 (map collapse ks) = on_neighbour X 0 ks.
Proof.
  unfold on_data, on_neighbour; rewrite !map_map; split; apply map_ext; intros []; simpl; auto; ring.
Qed.

(** Theorem (c): where the search says yes, f is within the limit at every list of K corners of which at most r move. *)
Theorem search_sound K r G g ks :
  bounded K G g -> (r <= K)%nat -> search_within r G = true ->
  length ks = K -> (moved_corners ks <= r)%nat ->
  (blossom (on_data (value x) (value D) ks) g + value c * blossom (on_neighbour (value x) (value D) ks) g)
    * (IZR one * IZR one) <= IZR limit.
Proof.
  intros bound rK all.
  assert (main : forall ks, length ks = K -> (moved_corners ks <= r)%nat ->
    (D = 0%Z -> count Up ks = 0%nat /\ count Down ks = 0%nat /\ count UpToOne ks = 0%nat /\ count DownFromOne ks = 0%nat) ->
    (blossom (on_data (value x) (value D) ks) g + value c * blossom (on_neighbour (value x) (value D) ks) g)
      * (IZR one * IZR one) <= IZR limit).
  { clear ks; intros ks len few flat.
    rewrite (blossom_permutation _ _ (on_data_pile _ _ ks)), (blossom_permutation _ _ (on_neighbour_pile _ _ ks)).
    rewrite !blossom_pile.
    pose proof (counts_total ks) as total; pose proof (counts_moved ks) as movers.
    set (nx := count XY ks) in *; set (ny := count YX ks) in *; set (z := count Zero ks) in *; set (o := count One ks) in *.
    set (u := count Up ks) in *; set (d := count Down ks) in *; set (s := count UpToOne ks) in *;
      set (t := count DownFromOne ks) in *; clearbody nx ny z o u d s t.
    unfold search_within in all.
    pose proof (along_true _ _ _ _ all nx ltac:(lia)) as allx; cbv beta in allx.
    pose proof (along_true _ _ _ _ allx ny ltac:(lia)) as here; clear all allx.
    assert (B : bounded (K - nx - ny) (times ny (step_up (one - x)) (times nx (step_up x) G))
                  (times ny (step y) (times nx (step (value x)) g))).
    { unfold y; rewrite <- value_complement; apply bounded_times; [lia|]; apply bounded_times; [lia|].
      now replace (nx + (ny + (K - nx - ny)))%nat with K by lia. }
    set (A := times ny (step_up (one - x)) _) in *; set (a := times ny (step y) _) in *.
    unfold rest_within in here; cbv zeta in here; rewrite (proj1 B) in here; cbn [pred] in here.
    pose proof (all_upto_true _ _ here (o + t + s)%nat ltac:(lia)) as split; cbv beta in split; clear here.
    replace (o + t)%nat with (o + t + s - s)%nat at 1 by lia.
    replace (z + d)%nat with (K - nx - ny - (o + t + s) - u)%nat by lia.
    eapply split_within_sound; [exact B|reflexivity| |exact split|lia|lia|].
    - lia.
    - destruct (Z.eqb_spec D 0) as [zero|]; [specialize (flat zero)|]; lia. }
  intros len few; destruct (Z.eq_dec D 0) as [zero|nonzero]; [|apply main; tauto].
  assert (Z : value D = 0) by (unfold value; rewrite zero; field; pose proof one_positive; lra).
  destruct (collapse_place (value x) ks) as [E E']; rewrite Z, <- E, <- E', <- Z.
  apply main; [now rewrite map_length|pose proof (collapse_moved ks); lia|intros _; apply collapse_counts].
Qed.

End Search.
